#include "libcuda/driver/faults.hpp"

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "device_model/clock.hpp"
#include "device_model/state.hpp"
#include "libcuda/driver/call_log.hpp"
#include "libcuda/driver/driver.hpp"

namespace emu {

std::atomic<Faults*> g_faults{nullptr};

namespace {

// EMUCUDA_FAULTS: the rules themselves, or @FILE.
std::string faults_of_environment() {
  const char* text = getenv("EMUCUDA_FAULTS");
  if (text == nullptr || *text != '@') return text == nullptr ? "" : text;
  std::ifstream file(text + 1);
  if (!file.good())
    throw std::runtime_error("emucuda: couldn't read " + std::string(text + 1) + ", which EMUCUDA_FAULTS names");
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

Faults::Faults(FaultTable table) : table_(std::move(table)), own_texts_(split_faults(faults_of_environment())) {
  own_counts_.resize(own_texts_.size());
  const std::lock_guard lock(mutex_);
  refresh();
}

void Faults::refresh() {
  const uint32_t generation = table_.generation();
  std::vector<Rule> rules;
  for (size_t i = 0; i < own_texts_.size(); ++i)
    rules.push_back({parse_fault(own_texts_[i]), own_texts_[i], &own_counts_[i], false});
  for (const FaultEntry& entry : table_.entries()) rules.push_back({parse_fault(entry.text), entry.text, entry.counts, false});
  for (Rule& rule : rules) {
    for (const Rule& before : rules_) rule.announced = rule.announced || (before.counts == rule.counts && before.announced);
  }
  rules_ = std::move(rules);
  // The log sits where the faults do, so that a program with neither pays for one look.
  armed_.store(!rules_.empty() || call_log_on(), std::memory_order_relaxed);
  seen_.store(generation);
}

// Counts a match; true when it is one of those that the rule is about.
bool Faults::strikes(Rule& rule, const std::string& name) {
  const FaultRule& fault = rule.fault;
  if ((fault.pid != 0 && fault.pid != getpid()) || !fault.matches(name)) return false;
  if (!fault.strikes(rule.counts->matches.fetch_add(1) + 1)) return false;
  if (rule.counts->strikes.fetch_add(1) >= fault.times) {
    rule.counts->strikes.fetch_sub(1);
    return false;
  }
  // Nobody may take an injected fault for a real one.
  if (!rule.announced) say("emucuda: injected fault \"" + rule.text + "\" strikes " + name);
  rule.announced = true;
  return true;
}

KernelFault Faults::on_kernel(const std::string& name, int device) {
  const std::lock_guard lock(mutex_);
  if (table_.generation() != seen_.load()) refresh();
  KernelFault struck;
  for (Rule& rule : rules_) {
    const FaultRule& fault = rule.fault;
    if (!fault.on_kernel || (fault.device >= 0 && fault.device != device) || !strikes(rule, name)) continue;
    struck.slow *= fault.slow;
    struck.hang = struck.hang || fault.hang;
    if (struck.signal == 0) struck.signal = fault.signal;
    if (struck.error == 0) struck.error = fault.lost ? kDeviceLost : fault.error;
  }
  return struck;
}

void Faults::on_call(const char* name) {
  log_call(name);
  int64_t delay_ns = 0;
  int error = 0;
  {
    const std::lock_guard lock(mutex_);
    if (table_.generation() != seen_.load()) refresh();
    for (Rule& rule : rules_) {
      if (rule.fault.on_kernel || !strikes(rule, name)) continue;
      delay_ns += rule.fault.delay_ns;
      if (error == 0) error = rule.fault.error;
    }
  }
  if (delay_ns > 0) {
    RealClock clock;
    clock.sleep_until(clock.now_ns() + delay_ns);
  }
  require(error == 0, static_cast<CUresult>(error));
}

}  // namespace emu
