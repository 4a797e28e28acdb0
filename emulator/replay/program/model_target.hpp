// The emulated device itself, without driver, process or real time.
#pragma once

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "../../device_model/clock.hpp"
#include "../../device_model/device_model.hpp"
#include "target.hpp"

namespace replay {

class ModelTarget final : public Target {
 public:
  explicit ModelTarget(const Plan& plan);

  int64_t now_ns() override { return clock_.now_ns(); }
  void sleep_until(int64_t t_ns) override;
  void issue(const Step& step) override;
  void wait_for_stream(int stream) override;
  void wait_for_all() override;
  void wait_for_number(int number) override;
  void mark(const Step& step) override;
  int64_t wait_for_mark(int mark) override;
  int64_t span_ns() override;

 private:
  int slot_of(int stream);
  bool give_drained_back();
  void enqueue(int slot, const emu::OpRequest& request);
  void wait_for(int slot, uint64_t seq);

  const Plan& plan_;
  emu::ManualClock clock_;
  std::unique_ptr<emu::DeviceState> state_;
  emu::DeviceModel model_;
  int process_;
  using Place = std::pair<int, uint64_t>;  // a slot and a piece of work in it
  std::map<int, std::vector<Place>> marks_;  // the last work of each slot
  std::vector<Place> numbered_;
  std::map<int, int> slots_;  // recorded stream -> the model's
};

}  // namespace replay
