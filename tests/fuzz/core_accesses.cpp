// What fikitd learns of the memory that a client's kernels touch, from launches, waits and places of somebody who means no good:
// numbers out of order, kernels whose hashes were made to look like another segment's, more places than there is room for. Whatever
// is said, the constants of accesses.hpp hold, the room is claimed for what is kept and for no more, and all of it is given back.
// A libFuzzer target (`make fuzz`), or a program of its own (alone.c).
#include <memory>
#include <tuple>
#include <utility>

#include "input.hpp"
#include "predictor/accesses.hpp"

namespace {

using namespace fikit::predictor;
using fikit::fuzz::check;
using fikit::fuzz::Input;

constexpr std::uint64_t kSeed = UINT64_C(0xcbf29ce484222325), kFactor = UINT64_C(0x9e3779b97f4a7c15);

std::uint64_t mixed(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * kFactor;
  return hash ^ hash >> 29;
}

// The kernel that leaves a segment's hash as it is: accesses.cpp's step backwards.
std::uint64_t unseen(std::uint64_t hash) {
  std::uint64_t inverse = 1;
  for (int i = 0; i < 6; ++i) inverse *= 2 - kFactor * inverse;
  return ((hash ^ hash >> 29 ^ hash >> 58) * inverse) ^ hash;
}

class Liar {
 public:
  explicit Liar(const std::shared_ptr<Room>& room) { accesses_.keep_within(room); }
  const Accesses& accesses() const { return accesses_; }
  std::size_t most_steps() const { return most_steps_; }

  void launch(std::uint64_t kernel, std::int64_t duration_ns = 1000) {
    check(unseen(hash_) == 0 || mixed(hash_, unseen(hash_)) == hash_);
    accesses_.launched(++number_, kernel, duration_ns);
    hash_ = mixed(hash_, kernel);
    last_ = kernel;
  }
  void launch_unseen() { launch(unseen(hash_)); }
  void wait(std::int64_t t_ns) {
    accesses_.waited(t_ns);
    hash_ = kSeed;
    if (accesses_.now() != nullptr) most_steps_ = std::max(most_steps_, accesses_.now()->steps.size());
    check(accesses_.now() == nullptr || accesses_.step() < accesses_.now()->steps.size());
    check(accesses_.latest_ns() >= 0);
  }
  void say(std::uint32_t allocation, std::uint32_t page, std::uint32_t pages) {
    accesses_.scanned(number_, last_);
    accesses_.touched(number_, allocation, page, pages, allocation % 3 == 0 ? page % 7 : 0);
  }
  // So many passes of a program whose launches, one by one, say what they touch.
  void go_on(std::uint8_t segments, std::uint8_t launches, std::uint8_t passes, std::uint8_t places) {
    for (int pass = 0; pass < 1 + passes % 6; ++pass)
      for (int segment = 0; segment <= segments % 5; ++segment) {
        for (int i = 0; i <= launches % 7; ++i) {
          launch(std::uint64_t{1} + (segments ^ segment ^ i) % 8);
          for (std::uint32_t place = 0; place < places; ++place) say(place % 5, place, 256);
        }
        wait(now_ns_ += 1000);
      }
  }
  void say_anything(Input& input) {
    const auto number = number_ + static_cast<std::uint64_t>(input.take<std::int8_t>());
    const auto wild = input.take<std::uint64_t>();
    switch (input.take<std::uint8_t>() % 6) {
      case 0: accesses_.launched(wild, wild, static_cast<std::int64_t>(wild)); break;
      case 1: accesses_.scanned(wild, last_); break;
      case 2: accesses_.touched(number, static_cast<std::uint32_t>(wild), static_cast<std::uint32_t>(wild >> 32), input.take<std::uint32_t>(),
                                input.take<std::uint32_t>());
        break;
      case 3: wait(static_cast<std::int64_t>(wild)); break;
      case 4: // more of them than are kept
        for (std::uint64_t i = 0; i < 20'000; ++i) accesses_.scanned(number + i % 300, last_);
        break;
      default: // a segment longer than any iteration
        for (std::uint64_t i = 0; i < (wild & 1 ? 17'000 : 300); ++i) launch(7);
    }
  }
  void remember() { accesses_.expect(std::make_shared<const AccessesLearnt>(accesses_.learnt())); }
  void miss() { accesses_.missed(); }

 private:
  Accesses accesses_;
  std::uint64_t number_ = 0, hash_ = kSeed, last_ = 0;
  std::int64_t now_ns_ = 0;
  std::size_t most_steps_ = 0; // of an iteration that it was in
};

auto place(const Touch& touch) { return std::tuple(touch.allocation, touch.page, touch.length); }

// How many places there are.
std::size_t check(const AccessesLearnt& learnt) {
  std::size_t places = 0;
  check(learnt.iterations.size() <= Accesses::kMaxIterations && learnt.pages.size() <= Accesses::kMaxAllocations);
  for (const Iteration& iteration : learnt.iterations) {
    check(!iteration.steps.empty() && iteration.steps.size() <= Accesses::kMaxLaunches && iteration.length_ns >= 0);
    for (const Step& step : iteration.steps) {
      check(step.touches.size() <= Accesses::kMaxTouches && step.duration_ns >= 0);
      places += step.touches.size();
      for (std::size_t i = 0; i < step.touches.size(); ++i) {
        const Touch& touch = step.touches[i];
        check(touch.count > 0 && touch.page < learnt.pages.at(touch.allocation));
        check(touch.length <= learnt.pages.at(touch.allocation) - touch.page);
        check(i == 0 || place(step.touches[i - 1]) < place(touch));
      }
    }
  }
  return places;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  const std::size_t bytes = std::size_t{1} << input.take<std::uint8_t>() % 24;
  const auto room = std::make_shared<Room>(bytes);
  int costly = 0;
  {
    Liar liar(room);
    Accesses::Reading reading; // goes on while the liar does
    while (!input.empty()) {
      if (liar.accesses().read(reading, 3)) {
        const AccessesLearnt known = std::exchange(reading, {}).known();
        check(known.iterations.size() <= 1);
        check(known);
      }
      switch (input.take<std::uint8_t>() % 8) {
        case 0: liar.launch(input.take<std::uint8_t>() % 4); break;
        case 1: liar.wait(input.take<std::uint16_t>()); break;
        case 2: liar.say(input.take<std::uint8_t>(), input.take<std::uint8_t>(), input.take<std::uint8_t>()); break;
        case 3: {
          const auto shape = input.take<std::uint32_t>();
          liar.go_on(static_cast<std::uint8_t>(shape), static_cast<std::uint8_t>(shape >> 8), static_cast<std::uint8_t>(shape >> 16),
                     static_cast<std::uint8_t>(shape >> 24));
          break;
        }
        case 4: liar.launch_unseen(); break;
        case 5: liar.remember(); break;
        case 6: input.take<std::uint8_t>() % 4 == 0 ? liar.miss() : liar.remember(); break;
        default:
          if (++costly <= 4) liar.say_anything(input);
      }
    }
    const AccessesLearnt learnt = liar.accesses().learnt();
    const std::size_t places = check(learnt);
    check(liar.accesses().known());
    check(bytes - room->left() <= Accesses::kMaxIterations * liar.most_steps() * sizeof(Step) + 2 * places * sizeof(Touch));
    AccessesLearnt twice = learnt;
    merge(twice, learnt);
    merge(twice, liar.accesses().known());
    check(twice);
  }
  check(room->left() == bytes);
  return 0;
}
