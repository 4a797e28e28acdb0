// fikit-replay: plays one recording, from standard input, and prints one JSON object. `python -m bench replay` runs it.
#include <charconv>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iostream>
#include <string>

#include "driver_target.hpp"
#include "model_target.hpp"

namespace {

using namespace replay;

int usage() {
  fprintf(stderr,
          "usage: fikit-replay model < RECORDING                                          in manual time\n"
          "       fikit-replay driver [--dilation K] [--ns-per-byte X] < RECORDING        through libcuda.so.1\n");
  return 2;
}

bool read_options(int count, char** arguments, DriverOptions& options) {
  for (int i = 0; i < count; i += 2) {
    double* value = strcmp(arguments[i], "--dilation") == 0      ? &options.dilation
                    : strcmp(arguments[i], "--ns-per-byte") == 0 ? &options.ns_per_byte
                                                                 : nullptr;
    if (value == nullptr || i + 1 == count) return false;
    const char* end = arguments[i + 1] + strlen(arguments[i + 1]);
    const auto [stop, error] = std::from_chars(arguments[i + 1], end, *value);
    if (error != std::errc() || stop != end || *value <= 0) return false;
  }
  return true;
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) >= ' ') out += c;
  }
  return out + "\"";
}

double ms(int64_t ns) { return static_cast<double>(ns) / 1e6; }

void print(const Recording& recording, const Plan& plan, int64_t span_ns, const std::string& device) {
  printf("{\"device\": %s, \"events\": %zu, ", quoted(device).c_str(), recording.events.size());
  printf("\"launch_latency_us\": %.3f, ", static_cast<double>(plan.launch_latency_ns) / 1e3);
  printf("\"kernel_gap_us\": %.3f, ", static_cast<double>(plan.kernel_gap_ns) / 1e3);
  printf("\"recorded_ms\": %.6f, \"replayed_ms\": %.6f}\n", ms(recording.span_ns()), ms(span_ns));
}

int run(int argc, char** argv) {
  DriverOptions options;
  const std::string mode = argc > 1 ? argv[1] : "";
  const bool model = mode == "model" && argc == 2;
  if (!model && (mode != "driver" || !read_options(argc - 2, argv + 2, options))) return usage();
  const Recording recording = read_recording(std::cin);
  const Plan plan = make_plan(recording, Waiting::own_thread);
  if (model) {
    ModelTarget target(plan);
    print(recording, plan, play(plan, target), "Emulated device model");
  } else {
    DriverTarget target(recording, options);
    print(recording, plan, play(plan, target), target.device_name());
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    fprintf(stderr, "fikit-replay: %s\n", error.what());
    return 1;
  }
}
