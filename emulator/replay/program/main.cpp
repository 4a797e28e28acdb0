// fikit-replay: plays a recording, once or as a job that goes through it again and again, and prints one JSON object. Run
// by `python -m bench replay` and `pairs`.
#include <charconv>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iostream>
#include <string>

#include "driver_target.hpp"
#include "job_command.hpp"
#include "../json.hpp"
#include "model_target.hpp"
#include "play.hpp"

namespace {

using namespace replay;

constexpr double kLeast = 1e-9;  // of what must be more than nothing
constexpr double kLargest = 1e9;

int usage() {
  fprintf(stderr,
          "usage: fikit-replay model < RECORDING                                          in manual time\n"
          "       fikit-replay driver [--dilation K] [--ns-per-byte X] < RECORDING        through libcuda.so.1\n"
          "       fikit-replay job [--stretch K] [--ns-per-byte X] [--requests N] [--arrivals FILE] RECORDING\n"
          "                                  again and again: says \"ready\", begins with the first line on standard input\n"
          "       fikit-replay job --model --requests N [--stretch K] [--arrivals FILE] RECORDING    the same in manual time\n"
          "       fikit-replay --version\n");
  return 2;
}

bool read_number(const char* text, double& value, double least) {
  const char* end = text + strlen(text);
  const auto [stop, error] = std::from_chars(text, end, value);
  return error == std::errc() && stop == end && value >= least && value <= kLargest;
}

bool read_options(int count, char** arguments, DriverOptions& options) {
  if (count % 2 != 0) return false;
  for (int i = 0; i < count; i += 2) {
    double* value = strcmp(arguments[i], "--dilation") == 0      ? &options.dilation
                    : strcmp(arguments[i], "--ns-per-byte") == 0 ? &options.ns_per_byte
                                                                 : nullptr;
    if (value == nullptr || !read_number(arguments[i + 1], *value, kLeast)) return false;
  }
  return true;
}

bool read_options(int count, char** arguments, JobOptions& options) {
  for (int i = 0; i < count; ++i) {
    const char* name = arguments[i];
    const char* text = i + 1 < count ? arguments[i + 1] : "";
    if (name[0] != '-' && options.recording.empty()) {
      options.recording = name;
    } else if (strcmp(name, "--model") == 0) {
      options.model = true;
    } else {
      const bool read = strcmp(name, "--requests") == 0      ? read_number(text, options.requests, 1)
                        : strcmp(name, "--stretch") == 0     ? read_number(text, options.stretch, kLeast)
                        : strcmp(name, "--ns-per-byte") == 0 ? read_number(text, options.driver.ns_per_byte, kLeast)
                        : strcmp(name, "--arrivals") == 0    ? !(options.arrivals = text).empty()
                                                             : false;
      if (!read) return false;
      ++i;
    }
  }
  return !options.recording.empty();
}

double ms(int64_t ns) { return static_cast<double>(ns) / 1e6; }

void print(const Recording& recording, const Plan& plan, int64_t span_ns, const std::string& device) {
  printf("{\"device\": %s, \"events\": %zu, ", emu::quoted(device).c_str(), recording.events.size());
  printf("\"launch_latency_us\": %.3f, ", static_cast<double>(plan.launch_latency_ns) / 1e3);
  printf("\"kernel_gap_us\": %.3f, ", static_cast<double>(plan.kernel_gap_ns) / 1e3);
  printf("\"recorded_ms\": %.6f, \"replayed_ms\": %.6f}\n", ms(recording.span_ns()), ms(span_ns));
}

int run(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  if (mode == "--version" && argc == 2) {
    printf("fikit-replay %s\n", FIKIT_VERSION);
    return 0;
  }
  if (mode == "job") {
    JobOptions job;
    if (!read_options(argc - 2, argv + 2, job)) return usage();
    job.driver.span = false;
    run_job(job);
    return 0;
  }
  DriverOptions options;
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
