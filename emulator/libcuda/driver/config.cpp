#include "libcuda/driver/config.hpp"

#include <dlfcn.h>
#include <fnmatch.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <initializer_list>
#include <stdexcept>
#include <string_view>

#include <toml++/toml.h>

#include "device_model/limits.hpp"
#include "libcuda/driver/driver_api.hpp"

namespace emu {
namespace {

class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path) {}

  [[noreturn]] void fail(const toml::node& where, const std::string& what) const {
    throw std::runtime_error("emucuda: couldn't use " + path_ + " line " + std::to_string(where.source().begin.line) +
                             ": " + what);
  }

  void only(const toml::table& table, std::initializer_list<std::string_view> keys) const {
    for (const auto& [key, value] : table) {
      if (std::find(keys.begin(), keys.end(), key.str()) != keys.end()) continue;
      std::string known;
      for (const auto& name : keys) known.append(known.empty() ? "" : ", ").append(name);
      fail(value, "unknown key '" + std::string(key.str()) + "', known here are " + known);
    }
  }

  void number(const toml::table& table, const char* key, double low, double& out) const {
    const toml::node* node = table.get(key);
    if (node == nullptr) return;
    const auto value = node->value<double>();
    if (!value || !std::isfinite(*value) || *value < low)
      fail(*node, std::string(key) + " must be a number of at least " + std::to_string(low));
    out = *value;
  }

  void microseconds(const toml::table& table, const char* key, int64_t& out_ns) const {
    double us = static_cast<double>(out_ns) / 1e3;
    number(table, key, 0, us);
    out_ns = std::llround(us * 1e3);
  }

  void text(const toml::table& table, const char* key, std::string& out) const {
    const toml::node* node = table.get(key);
    if (node == nullptr) return;
    if (!node->is_string()) fail(*node, std::string(key) + " must be a text in quotes");
    out = *node->value<std::string>();
  }

  void truth(const toml::table& table, const char* key, bool& out) const {
    const toml::node* node = table.get(key);
    if (node == nullptr) return;
    if (!node->is_boolean()) fail(*node, std::string(key) + " must be true or false");
    out = *node->value<bool>();
  }

  // "16GiB", "64MiB", or a number of bytes.
  void size(const toml::table& table, const char* key, uint64_t& out) const {
    const toml::node* node = table.get(key);
    if (node == nullptr) return;
    if (const auto bytes = node->value_exact<int64_t>(); bytes && *bytes >= 0) {
      out = static_cast<uint64_t>(*bytes);
      return;
    }
    const std::string value = node->value_or<std::string>("");
    char* unit = nullptr;
    const double amount = strtod(value.c_str(), &unit);
    for (const auto& [name, shift] : {std::pair{"KiB", 10}, std::pair{"MiB", 20}, std::pair{"GiB", 30}}) {
      if (unit == value.c_str() || amount < 0 || std::string_view(unit) != name) continue;
      out = static_cast<uint64_t>(std::ldexp(amount, shift));
      return;
    }
    fail(*node, std::string(key) + " must be a size such as \"16GiB\", \"512MiB\" or a number of bytes");
  }

  const toml::table* section(const toml::table& root, const char* key) const {
    const toml::node* node = root.get(key);
    if (node == nullptr) return nullptr;
    if (!node->is_table()) fail(*node, std::string(key) + " must be a table, written [" + key + "]");
    return node->as_table();
  }

 private:
  std::string path_;
};

// "3g.71gb": three of the GPU's seven slices and 71 GiB.
MigProfile read_profile(const Reader& reader, const toml::node& node) {
  MigProfile profile;
  profile.name = node.value_or(std::string());
  int gib = 0;
  char end = 0;
  // NOLINTNEXTLINE(cert-err34-c): text that is no number is caught by the count
  if (sscanf(profile.name.c_str(), "%1dg.%3dg%c", &profile.slices, &gib, &end) != 3 || end != 'b' ||
      profile.name != std::to_string(profile.slices) + "g." + std::to_string(gib) + "gb" || profile.slices < 1 || gib < 1)
    reader.fail(node, "an instance in mig must look like \"3g.71gb\"");
  profile.memory_bytes = static_cast<uint64_t>(gib) << 30;
  return profile;
}

void read_mig(const Reader& reader, const toml::table& table, Config& config) {
  const toml::node* node = table.get("mig");
  if (node == nullptr) return;
  if (!node->is_array()) reader.fail(*node, "mig must be a list of instances, as [\"3g.71gb\", \"3g.71gb\"]");
  int slices = 0;
  uint64_t memory_bytes = 0;
  for (const toml::node& instance : *node->as_array()) {
    config.mig.push_back(read_profile(reader, instance));
    slices += config.mig.back().slices;
    memory_bytes += config.mig.back().memory_bytes;
  }
  if (slices > kMigSlices || memory_bytes > config.memory_bytes)
    reader.fail(*node, "the instances in mig must fit into seven slices and the device's memory");
}

void read_device(const Reader& reader, const toml::table& table, Config& config) {
  reader.only(table, {"name", "count", "memory", "context_memory", "slice_us", "switch_us", "launch_latency_us",
                      "kernel_gap_us", "event_gap_us", "kernel_event_gap_us", "concurrent_kernels", "sharing", "mps_model", "mps_switch_us", "idle_yields", "overlap_slowdown", "dilation",
                      "access", "compute_capability", "mig"});
  double count = config.count;
  double concurrent = config.concurrent_kernels;
  std::string sharing = "slices";
  std::string mps_model = "proportion";
  std::string access = "user";
  std::string capability = "9.0";
  reader.text(table, "name", config.name);
  reader.number(table, "count", 1, count);
  reader.size(table, "memory", config.memory_bytes);
  reader.size(table, "context_memory", config.context_memory_bytes);
  read_mig(reader, table, config);
  reader.microseconds(table, "slice_us", config.slice_ns);
  reader.microseconds(table, "switch_us", config.switch_ns);
  reader.microseconds(table, "launch_latency_us", config.launch_latency_ns);
  reader.microseconds(table, "kernel_gap_us", config.kernel_gap_ns);
  reader.microseconds(table, "event_gap_us", config.event_gap_ns);
  reader.microseconds(table, "kernel_event_gap_us", config.kernel_event_gap_ns);
  reader.number(table, "concurrent_kernels", 1, concurrent);
  reader.text(table, "sharing", sharing);
  reader.text(table, "mps_model", mps_model);
  reader.microseconds(table, "mps_switch_us", config.mps_switch_ns);
  reader.truth(table, "idle_yields", config.idle_yields);
  reader.number(table, "overlap_slowdown", 1, config.overlap_slowdown);
  reader.number(table, "dilation", 0.001, config.dilation);
  reader.text(table, "access", access);
  reader.text(table, "compute_capability", capability);
  // Nobody may take results of an emulated device for those of a real one.
  if (config.name.find("Emulated") == std::string::npos)
    reader.fail(*table.get("name"), "the device's name must contain \"Emulated\"");
  if (concurrent > kMaxConcurrent)
    reader.fail(*table.get("concurrent_kernels"),
                "concurrent_kernels must be at most " + std::to_string(kMaxConcurrent));
  if (sharing != "slices" && sharing != "mps" && sharing != "merged")
    reader.fail(*table.get("sharing"), "sharing must be \"slices\" or \"mps\" (\"merged\" for tests)");
  if (mps_model != "proportion" && mps_model != "admission")
    reader.fail(*table.get("mps_model"), "mps_model must be \"proportion\" or \"admission\"");
  if (access != "user" && access != "all") reader.fail(*table.get("access"), "access must be \"user\" or \"all\"");
  if (count > 64) reader.fail(*table.get("count"), "count must be at most 64");
  // NOLINTNEXTLINE(cert-err34-c): text that is no number is caught by the count
  if (sscanf(capability.c_str(), "%d.%d", &config.compute_major, &config.compute_minor) != 2)
    reader.fail(*table.get("compute_capability"), "compute_capability must look like \"9.0\"");
  config.count = static_cast<int>(count);
  config.concurrent_kernels = static_cast<int>(concurrent);
  config.sharing = sharing == "mps" ? Sharing::mps : sharing == "merged" ? Sharing::merged : Sharing::slices;
  config.mps_model = mps_model == "admission" ? MpsModel::admission : MpsModel::proportion;
  config.for_all_users = access == "all";
}

void read_driver(const Reader& reader, const toml::table& table, DriverTimes& driver) {
  reader.only(table, {"submission_us", "event_us", "first_launch_us", "first_launch_waits", "dependent_overlap_us"});
  reader.microseconds(table, "submission_us", driver.submission_ns);
  reader.microseconds(table, "event_us", driver.event_ns);
  reader.microseconds(table, "first_launch_us", driver.first_launch_ns);
  reader.microseconds(table, "dependent_overlap_us", driver.dependent_overlap_ns);
  if (const toml::node* node = table.get("first_launch_waits")) {
    if (!node->is_boolean()) reader.fail(*node, "first_launch_waits must be true or false");
    driver.first_launch_waits = *node->value<bool>();
  }
}

void read_mps(const Reader& reader, const toml::table& table, MpsRefusal& mps) {
  reader.only(table, {"refuses", "init_again"});
  double error = 0;
  reader.number(table, "refuses", 0, error);
  mps.error = static_cast<int>(error);
  if (mps.error != 0 && !is_mps_refusal(mps.error)) reader.fail(*table.get("refuses"), "refuses must be 0, or 805 to 809");
  reader.truth(table, "init_again", mps.init_again);
}

void read_managed(const Reader& reader, const toml::table& table, Config& config) {
  reader.only(table, {"in_gbps", "out_gbps", "first_out_gbps", "fault_batch_us", "fault_batch", "out_is_host", "out_blocks",
                      "in_call_us"});
  reader.number(table, "in_gbps", 0, config.in_gbps);
  reader.number(table, "out_gbps", 0, config.out_gbps);
  reader.number(table, "first_out_gbps", 0, config.first_out_gbps);
  reader.microseconds(table, "fault_batch_us", config.fault_batch_ns);
  reader.size(table, "fault_batch", config.fault_batch_bytes);
  if (config.fault_batch_bytes == 0) reader.fail(*table.get("fault_batch"), "fault_batch must be more than nothing");
  reader.truth(table, "out_is_host", config.out_is_host);
  reader.truth(table, "out_blocks", config.out_blocks);
  reader.microseconds(table, "in_call_us", config.in_call_ns);
}

void read_virtual_memory(const Reader& reader, const toml::table& table, VirtualMemoryTimes& times) {
  reader.only(table, {"create_us", "map_us", "set_access_us", "unmap_us"});
  reader.microseconds(table, "create_us", times.create_ns);
  reader.microseconds(table, "map_us", times.map_ns);
  reader.microseconds(table, "set_access_us", times.set_access_ns);
  reader.microseconds(table, "unmap_us", times.unmap_ns);
}

KernelRule read_rule(const Reader& reader, const toml::table& table, const KernelRule& fallback) {
  reader.only(table, {"match", "duration", "base_us", "ns_per_thread", "us", "registers"});
  KernelRule rule = fallback;
  std::string duration;
  reader.text(table, "match", rule.match);
  reader.text(table, "duration", duration);
  if (rule.match.empty()) reader.fail(table, "a [[kernel]] needs match = \"pattern\"");
  if (!duration.empty() && duration != "param0_ns")
    reader.fail(*table.get("duration"), "duration can only be \"param0_ns\"");
  rule.from_param0 = duration == "param0_ns";
  double registers = rule.registers;
  reader.number(table, "registers", 1, registers);
  if (registers > limits::kMostRegistersPerThread)
    reader.fail(*table.get("registers"), "registers must be at most " + std::to_string(limits::kMostRegistersPerThread));
  rule.registers = static_cast<int>(registers);
  if (table.contains("us")) rule.ns_per_thread = 0;
  reader.number(table, "us", 0, rule.base_us);
  reader.number(table, "base_us", 0, rule.base_us);
  reader.number(table, "ns_per_thread", 0, rule.ns_per_thread);
  return rule;
}

}  // namespace

const KernelRule& Config::rule_for(const std::string& kernel) const {
  for (const KernelRule& rule : kernels) {
    if (fnmatch(rule.match.c_str(), kernel.c_str(), 0) == 0) return rule;
  }
  return fallback;
}

int64_t Config::stretched(int64_t ns) const { return std::llround(static_cast<double>(ns) * dilation); }

DeviceParameters Config::device(uint64_t memory_of_it) const {
  const double out = out_gbps > 0 ? out_gbps : d2h_gbps;
  return {.memory_bytes = memory_of_it,
          .context_memory_bytes = context_memory_bytes,
          .slice_ns = stretched(slice_ns),
          .switch_ns = stretched(switch_ns),
          .launch_latency_ns = stretched(launch_latency_ns),
          .kernel_gap_ns = stretched(kernel_gap_ns),
          .event_gap_ns = stretched(event_gap_ns),
          .kernel_event_gap_ns = stretched(kernel_event_gap_ns),
          .concurrency = concurrent_kernels,
          .sharing = sharing,
          .mps_model = mps_model,
          .mps_switch_ns = stretched(mps_switch_ns),
          .idle_holds = idle_yields ? 0 : 1,
          .overlap_slowdown = overlap_slowdown,
          .link_in = (in_gbps > 0 ? in_gbps : h2d_gbps) / dilation,
          .link_out = out / dilation,
          .link_first_out = (first_out_gbps > 0 ? first_out_gbps : out) / dilation,
          .both_ways = both_ways,
          .fault_batch_ns = stretched(fault_batch_ns),
          .fault_batch_bytes = fault_batch_bytes};
}

Config load_config(const std::string& path) {
  toml::table root;
  try {
    root = toml::parse_file(path);
  } catch (const toml::parse_error& error) {
    throw std::runtime_error("emucuda: couldn't read " + path + " line " + std::to_string(error.source().begin.line) +
                             ": " + std::string(error.description()));
  }
  Config config;
  const Reader reader(path);
  reader.only(root, {"device", "driver", "mps", "copy", "managed", "virtual_memory", "default", "kernel"});
  if (const auto* device = reader.section(root, "device")) read_device(reader, *device, config);
  if (const auto* driver = reader.section(root, "driver")) read_driver(reader, *driver, config.driver);
  if (const auto* mps = reader.section(root, "mps")) read_mps(reader, *mps, config.mps);
  if (const auto* copy = reader.section(root, "copy")) {
    reader.only(*copy, {"latency_us", "h2d_gbps", "d2h_gbps", "d2d_gbps", "both_ways"});
    reader.number(*copy, "latency_us", 0, config.copy_latency_us);
    reader.number(*copy, "h2d_gbps", 0.001, config.h2d_gbps);
    reader.number(*copy, "d2h_gbps", 0.001, config.d2h_gbps);
    reader.number(*copy, "d2d_gbps", 0.001, config.d2d_gbps);
    reader.number(*copy, "both_ways", 0.001, config.both_ways);
    if (config.both_ways > 1) reader.fail(*copy->get("both_ways"), "both_ways must be at most 1");
  }
  if (const auto* managed = reader.section(root, "managed")) read_managed(reader, *managed, config);
  if (const auto* table = reader.section(root, "virtual_memory")) read_virtual_memory(reader, *table, config.virtual_memory);
  if (const auto* fallback = reader.section(root, "default")) {
    reader.only(*fallback, {"base_us", "ns_per_thread"});
    reader.number(*fallback, "base_us", 0, config.fallback.base_us);
    reader.number(*fallback, "ns_per_thread", 0, config.fallback.ns_per_thread);
  }
  if (const toml::node* kernels = root.get("kernel")) {
    if (!kernels->is_array_of_tables()) reader.fail(*kernels, "kernel rules are written [[kernel]]");
    for (const toml::node& rule : *kernels->as_array())
      config.kernels.push_back(read_rule(reader, *rule.as_table(), config.fallback));
  }
  return config;
}

std::string config_path() {
  if (const char* path = getenv("EMUCUDA_CONFIG"); path != nullptr && *path != '\0') return path;
  Dl_info info{};
  dladdr(reinterpret_cast<const void*>(&config_path), &info);
  std::error_code ignored;
  const auto library = std::filesystem::canonical(info.dli_fname, ignored);
  return (library.parent_path() / "default.toml").string();
}

}  // namespace emu
