// Memory that a user's programs may make the daemon keep, all of them together: what they teach it, and what their profiles say.
// Where there is no more, nothing new is learnt; what is known stays.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

namespace fikit::predictor {

class Room {
 public:
  // within: a part of another one.
  explicit Room(std::size_t bytes, std::shared_ptr<Room> within = nullptr) : left_(bytes), within_(std::move(within)) {}
  bool take(std::size_t bytes) {
    std::size_t left = left_.load(std::memory_order_relaxed);
    do {
      if (left < bytes) return false;
    } while (!left_.compare_exchange_weak(left, left - bytes, std::memory_order_relaxed));
    if (within_ == nullptr || within_->take(bytes)) return true;
    left_.fetch_add(bytes, std::memory_order_relaxed);
    return false;
  }
  void give_back(std::size_t bytes) {
    left_.fetch_add(bytes, std::memory_order_relaxed);
    if (within_ != nullptr) within_->give_back(bytes);
  }
  std::size_t left() const { return left_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::size_t> left_;
  std::shared_ptr<Room> within_;
};

// What one has taken of a room, until its end. Without a room there is always more; a copy is in none.
class Claim {
 public:
  Claim() = default;
  explicit Claim(std::shared_ptr<Room> room) : room_(std::move(room)) {}
  Claim(const Claim&) {}
  Claim(Claim&& other) noexcept : room_(std::move(other.room_)), taken_(std::exchange(other.taken_, 0)) {}
  Claim& operator=(Claim other) noexcept {
    std::swap(room_, other.room_);
    std::swap(taken_, other.taken_);
    return *this;
  }
  ~Claim() {
    if (room_ != nullptr) room_->give_back(taken_);
  }
  bool more(std::size_t bytes) {
    if (room_ == nullptr) return true;
    if (!room_->take(bytes)) return false;
    taken_ += bytes;
    return true;
  }

 private:
  std::shared_ptr<Room> room_;
  std::size_t taken_ = 0;
};

} // namespace fikit::predictor
