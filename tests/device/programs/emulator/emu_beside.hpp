// A device in manual time whose kernels have demands and waves: for the programs about kernels beside each other.
#pragma once

#include <memory>

#include "device_model/device_model.hpp"

inline constexpr int64_t kBegin = 1;  // 0 would read as "no first op yet" in the accounts

struct Bench {
  explicit Bench(const emu::DeviceParameters& parameters) : state(std::make_unique<emu::DeviceState>()), model(*state) {
    emu::DeviceModel::initialise(*state, parameters);
    model.advance(kBegin);
  }
  int process(const emu::Membership& membership = {}) { return model.attach(++pids, 1, 0, membership); }
  int stream(const emu::Membership& membership = {}) { return model.open_stream(process(membership), 0); }
  uint64_t kernel(int stream, int64_t ns, double demand = 1, uint64_t waves = 1) {
    return model.enqueue(stream, {.kind = emu::OpKind::kernel, .duration_ns = ns, .demand = demand, .waves = waves});
  }
  int64_t end(int stream, uint64_t seq = 0) { return model.op(stream, seq).end_ns - kBegin; }
  void at(int64_t ns) { model.advance(kBegin + ns); }

  std::unique_ptr<emu::DeviceState> state;
  emu::DeviceModel model;
  int pids = 100;
};
