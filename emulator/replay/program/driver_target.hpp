// A real driver, or the emulated one: whatever libcuda.so.1 the process finds.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cuda_driver.hpp"
#include "target.hpp"

namespace replay {

struct DriverOptions {
  double dilation = 1;     // the emulated device's, so that the host is as slow as the device
  double ns_per_byte = 0;  // an emulated device's copy engines: copies are made as large as their recorded time asks
                           // for. 0: copies have their recorded size and take the time they take
  bool span = true;        // span_ns() will be asked for
};

class DriverTarget final : public Target {
 public:
  // Throws std::runtime_error, one sentence, when there is no driver or no device.
  DriverTarget(const Recording& recording, const DriverOptions& options);

  int64_t now_ns() override;
  void sleep_until(int64_t t_ns) override;
  void issue(const Step& step) override;
  void wait_for_stream(int stream) override;
  void wait_for_all() override;
  void wait_for_number(int number) override;
  void mark(const Step& step) override;
  int64_t wait_for_mark(int mark) override;
  // By the driver's own events: from the first issue to the last end of any stream.
  int64_t span_ns() override;
  std::string device_name() const { return device_name_; }

 private:
  struct Kernel {
    CUfunction function = nullptr;
    unsigned shared_bytes = 0;  // dynamic: the most that a launch may ask for
  };

  CUevent event_after(CUstream stream);
  bool wait_for_event(CUevent event);  // false: it was done
  void launch(const Event& event, CUstream stream);
  void copy(const Event& event, CUstream stream);
  size_t bytes_of(const Event& event) const;

  CudaDriver cuda_;
  DriverOptions options_;
  std::string device_name_;
  std::vector<Kernel> kernels_;  // by the recording's names; those of copies and synchronisations are empty
  std::map<int, CUstream> streams_;
  std::map<int, std::vector<CUevent>> marks_;
  std::map<int, CUevent> numbered_;
  std::map<int, int> numbers_of_marks_;
  CUevent first_ = nullptr;
  std::vector<CUevent> last_;  // one per finished stream
  CUdeviceptr on_device_ = 0;  // two halves, for copies within the device
  void* on_host_ = nullptr;
  size_t buffer_bytes_ = 0;
};

}  // namespace replay
