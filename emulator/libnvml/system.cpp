// What is not about one device: versions, process names, error texts.
#include <cstdio>
#include <fstream>

#include "library.hpp"

using namespace emu;

namespace {

constexpr int kCudaVersion = 13000;  // as cuDriverGetVersion of ../libcuda says
constexpr const char* kDriverVersion = "580.0-emulated";
constexpr const char* kNvmlVersion = "13.580.0-emulated";

struct ErrorText {
  int code;
  const char* text;
};

constexpr ErrorText kErrors[] = {
    {0, "Success"},
    {1, "Uninitialized"},
    {2, "Invalid Argument"},
    {3, "Not Supported"},
    {4, "Insufficient Permissions"},
    {5, "Already Initialized"},
    {6, "Not Found"},
    {7, "Insufficient Size"},
    {8, "Insufficient External Power"},
    {9, "Driver Not Loaded"},
    {10, "Timeout"},
    {11, "Interrupt Request Issue"},
    {12, "NVML Shared Library Not Found"},
    {13, "Function Not Found"},
    {14, "Corrupted infoROM"},
    {15, "GPU is lost"},
    {16, "GPU requires restart"},
    {17, "The operating system has blocked the request"},
    {18, "Driver/library version mismatch"},
    {19, "In use by another client"},
    {20, "Insufficient Memory"},
    {21, "No data"},
    {25, "Argument version mismatch"},
    {26, "Deprecated"},
    {27, "Not ready"},
    {28, "GPU not found"},
    {29, "Invalid state"},
};

}  // namespace

NVML_EXPORT const char* nvmlErrorString(int code) {
  for (const ErrorText& error : kErrors) {
    if (error.code == code) return error.text;
  }
  return "Unknown Error";
}

NVML_EXPORT nvmlReturn nvmlSystemGetDriverVersion(char* out, unsigned size) {
  return api([&](const Library&) { give_text(out, size, kDriverVersion); });
}

// Also before nvmlInit, as the real one.
NVML_EXPORT nvmlReturn nvmlSystemGetCudaDriverVersion(int* out) {
  if (out == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *out = kCudaVersion;
  return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn nvmlSystemGetCudaDriverVersion_v2(int* out) { return nvmlSystemGetCudaDriverVersion(out); }

NVML_EXPORT nvmlReturn nvmlSystemGetNVMLVersion(char* out, unsigned size) {
  return api([&](const Library&) { give_text(out, size, kNvmlVersion); });
}

NVML_EXPORT nvmlReturn nvmlSystemGetProcessName(unsigned pid, char* out, unsigned size) {
  return api([&](const Library&) {
    require(out != nullptr && size > 0, NVML_ERROR_INVALID_ARGUMENT);
    std::ifstream file("/proc/" + std::to_string(pid) + "/cmdline");
    std::string program;
    require(static_cast<bool>(std::getline(file, program, '\0')), NVML_ERROR_NOT_FOUND);
    snprintf(out, size, "%s", program.c_str());  // the one text that NVML shortens
  });
}
