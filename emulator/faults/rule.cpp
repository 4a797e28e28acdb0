#include "rule.hpp"

#include <fnmatch.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <sstream>
#include <stdexcept>

namespace emu {
namespace {

// The errors after which a context is unusable (CUDA manual, CUresult): ECC, illegal address, timeout, assert, failed.
constexpr int kStickyErrors[] = {214, 700, 702, 710, 719};

struct Signal {
  const char* name;
  int number;
};
// What crashing programs die of, and what kills them from outside.
constexpr Signal kSignals[] = {{"KILL", SIGKILL}, {"SEGV", SIGSEGV}, {"ABRT", SIGABRT}, {"BUS", SIGBUS},
                               {"FPE", SIGFPE},   {"ILL", SIGILL},   {"TERM", SIGTERM}};

class Words {
 public:
  explicit Words(const std::string& text) : text_(text) {
    std::istringstream in(text);
    for (std::string word; in >> word;) words_.push_back(word);
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw std::runtime_error("emucuda: couldn't use the fault \"" + text_ + "\": " + what);
  }

  // Takes the word NAME=VALUE out; false when it is not there.
  bool value(const std::string& name, std::string& out) {
    const auto found = std::find_if(words_.begin(), words_.end(), [&](const std::string& word) {
      return word.compare(0, name.size() + 1, name + "=") == 0;
    });
    if (found == words_.end()) return false;
    out = found->substr(name.size() + 1);
    if (out.empty()) fail(name + "= needs a value");
    words_.erase(found);
    return true;
  }

  bool flag(const std::string& name) {
    const auto found = std::find(words_.begin(), words_.end(), name);
    if (found == words_.end()) return false;
    words_.erase(found);
    return true;
  }

  // A number from `low` to `high`.
  template <typename Number>
  bool number(const std::string& name, double low, double high, Number& out) {
    std::string text;
    if (!value(name, text)) return false;
    char* end = nullptr;
    const double read = strtod(text.c_str(), &end);
    const bool whole = std::is_floating_point_v<Number> || read == std::floor(read);
    if (*end != '\0' || !(read >= low && read <= high) || !whole) {
      std::ostringstream range;
      range << name << " must be a " << (std::is_floating_point_v<Number> ? "" : "whole ") << "number from " << low
            << " to " << high;
      fail(range.str());
    }
    out = static_cast<Number>(read);
    return true;
  }

  void duration(const std::string& name, int64_t& out) {
    std::string text;
    if (!value(name, text)) return;
    char* unit = nullptr;
    const double amount = strtod(text.c_str(), &unit);
    for (const auto& [suffix, ns] : {std::pair{"us", 1e3}, std::pair{"ms", 1e6}, std::pair{"s", 1e9}}) {
      if (unit == text.c_str() || suffix != std::string(unit) || !(amount > 0 && amount * ns <= 3600e9)) continue;
      out = std::llround(amount * ns);
      return;
    }
    fail(name + " must be a time up to an hour such as 500us, 20ms or 1.5s");
  }

  bool signal(const std::string& name, int& out) {
    std::string text;
    if (!value(name, text)) return false;
    std::string known;
    for (const Signal& signal : kSignals) {
      if (text == signal.name) out = signal.number;
      known += std::string(known.empty() ? "" : ", ") + signal.name;
    }
    if (out == 0) fail(name + " must be one of " + known);
    return true;
  }

  const std::vector<std::string>& left() const { return words_; }

 private:
  std::string text_;
  std::vector<std::string> words_;
};

void read_when(Words& words, FaultRule& rule) {
  std::string call;
  rule.on_kernel = words.value("kernel", rule.pattern);
  if (words.value("call", call) == rule.on_kernel) words.fail("it needs kernel=PATTERN or call=PATTERN, one of them");
  if (!rule.on_kernel) rule.pattern = call;
  if (rule.on_kernel) words.number("device", 0, 63, rule.device);
  words.number("pid", 1, INT32_MAX, rule.pid);
  words.number("nth", 1, 1e15, rule.nth);
  words.number("chance", 0, 1, rule.chance);
  words.number("seed", 0, 1e15, rule.seed);
  if (words.flag("times=all")) {
    rule.times = kAlways;
  } else {
    words.number("times", 1, 1e15, rule.times);
  }
}

void read_what(Words& words, FaultRule& rule) {
  const bool error = words.number("error", 1, 9999, rule.error);
  if (!rule.on_kernel) {
    words.duration("delay", rule.delay_ns);
    if (!error && rule.delay_ns == 0) words.fail("a call can get error=NUMBER, delay=TIME or both");
    return;
  }
  const bool slow = words.number("slow", 1, 1e6, rule.slow);
  rule.hang = words.flag("hang");
  const bool kill = words.flag("kill");
  if (kill) rule.signal = SIGKILL;
  const bool signal = words.signal("signal", rule.signal);
  rule.lost = words.flag("lost");
  const bool sticky = std::find(std::begin(kStickyErrors), std::end(kStickyErrors), rule.error) != std::end(kStickyErrors);
  if (error && !sticky) words.fail("a kernel's error can be 214, 700, 702, 710 or 719");
  // A slow kernel may fail at its end (that is what a timeout looks like); everything else excludes the others.
  if ((error || slow) + rule.hang + kill + signal + rule.lost != 1)
    words.fail("a kernel can get one of error=NUMBER, slow=FACTOR, hang, kill, signal=NAME and lost, or error with slow");
}

// splitmix64: every match gets a number of its own, without state.
double uniform(uint64_t seed, uint64_t match) {
  uint64_t z = seed * 0x9e3779b97f4a7c15u + match * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1.0p-53;
}

}  // namespace

bool FaultRule::matches(const std::string& name) const { return fnmatch(pattern.c_str(), name.c_str(), 0) == 0; }

bool FaultRule::strikes(uint64_t match) const {
  return match >= nth && (chance >= 1 || uniform(seed, match) < chance);
}

FaultRule parse_fault(const std::string& text) {
  Words words(text);
  FaultRule rule;
  read_when(words, rule);
  read_what(words, rule);
  if (!words.left().empty()) words.fail("\"" + words.left().front() + "\" is not a word that belongs here");
  return rule;
}

std::vector<std::string> split_faults(const std::string& text) {
  std::vector<std::string> rules;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream parts(line.substr(0, line.find('#')));
    for (std::string part; std::getline(parts, part, ';');) {
      const size_t begin = part.find_first_not_of(" \t\r");
      if (begin != std::string::npos) rules.push_back(part.substr(begin, part.find_last_not_of(" \t\r") + 1 - begin));
    }
  }
  return rules;
}

}  // namespace emu
