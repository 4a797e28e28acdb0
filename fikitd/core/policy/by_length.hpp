// Who waits, by the length of what it waits for: in classes of lengths that differ by less than a factor of two, and these in
// eighths.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "progress.hpp"
#include "rows.hpp"

namespace fikit::policy {

// Of the lengths 2^(octave - 1) .. 2^octave - 1 the eighth part `eighth`; of the shortest octaves each length is a part.
struct LengthClass {
  static constexpr std::size_t kOctaves = 64;
  static constexpr std::size_t kEighths = 8;

  std::size_t octave = 0;
  std::size_t eighth = 0;

  static constexpr LengthClass of(std::int64_t length_ns) {
    const auto length = static_cast<std::uint64_t>(std::max<std::int64_t>(length_ns, 0));
    const auto octave = static_cast<std::size_t>(std::bit_width(length));
    return {.octave = octave, .eighth = octave < 4 ? length & 7 : length >> (octave - 4) & 7};
  }
  std::int64_t shortest_ns() const {
    if (octave < 4) return static_cast<std::int64_t>(eighth);
    return static_cast<std::int64_t>((8 + eighth) << (octave - 4));
  }
  std::int64_t longest_ns() const {
    if (octave < 4) return static_cast<std::int64_t>(eighth);
    return static_cast<std::int64_t>(((9 + std::uint64_t{eighth}) << (octave - 4)) - 1);
  }
  static constexpr std::int64_t shortest_of(std::size_t octave) { return octave == 0 ? 0 : std::int64_t{1} << (octave - 1); }
  static constexpr std::int64_t longest_of(std::size_t octave) {
    return static_cast<std::int64_t>((std::uint64_t{1} << octave) - 1);
  }
};

class ByLength {
 public:
  ByLength() { lengths_.fill(kUnknown); }

  // Of kUnknown length it is in no class.
  void put(std::size_t row, std::int64_t length_ns) {
    const std::int64_t known_ns = lengths_[row];
    if (known_ns == length_ns) return;
    if (known_ns >= 0) leave(row, LengthClass::of(known_ns));
    lengths_[row] = length_ns;
    if (length_ns >= 0) enter(row, LengthClass::of(length_ns));
  }
  std::int64_t length_ns(std::size_t row) const { return lengths_[row]; }
  const Rows& of(const LengthClass& number) const { return octaves_[number.octave].eighths[number.eighth].rows; }
  const Rows& of_octave(std::size_t octave) const { return octaves_[octave].rows; }
  // Those that are known to wait for exactly as long as this row, with it.
  Rows equal(std::size_t row) const {
    const LengthClass number = LengthClass::of(lengths_[row]);
    const Class& all = octaves_[number.octave].eighths[number.eighth];
    if (all.only_ns == lengths_[row]) return all.rows;
    Rows itself;
    itself.set(row, true);
    return itself;
  }
  // Of each octave that somebody is in, its number; of each class in it, the same.
  template <class Seen>
  void each_octave(Seen seen) const {
    for (std::uint64_t octaves = some_; octaves != 0; octaves &= octaves - 1)
      seen(static_cast<std::size_t>(std::countr_zero(octaves)));
  }
  template <class Seen>
  void each_class(std::size_t octave, Seen seen) const {
    for (std::uint32_t eighths = octaves_[octave].some; eighths != 0; eighths &= eighths - 1)
      seen(LengthClass{.octave = octave, .eighth = static_cast<std::size_t>(std::countr_zero(eighths))});
  }
  bool same_rows(const ByLength& other) const { return lengths_ == other.lengths_; }

 private:
  struct Class {
    Rows rows;
    std::int64_t only_ns = kUnknown; // of all of them; kUnknown: they may differ
  };
  struct Octave {
    std::array<Class, LengthClass::kEighths> eighths{};
    Rows rows; // of all of them
    std::uint32_t some = 0; // eighths that somebody is in
  };
  void enter(std::size_t row, const LengthClass& number) {
    Octave& octave = octaves_[number.octave];
    Class& now = octave.eighths[number.eighth];
    now.only_ns = !now.rows.any() || now.only_ns == lengths_[row] ? lengths_[row] : kUnknown;
    now.rows.set(row, true);
    octave.rows.set(row, true);
    octave.some |= 1U << number.eighth;
    some_ |= std::uint64_t{1} << number.octave;
  }
  void leave(std::size_t row, const LengthClass& number) {
    Octave& octave = octaves_[number.octave];
    Class& before = octave.eighths[number.eighth];
    before.rows.set(row, false);
    octave.rows.set(row, false);
    if (before.rows.any()) return;
    octave.some &= ~(1U << number.eighth);
    if (octave.some == 0) some_ &= ~(std::uint64_t{1} << number.octave);
  }
  std::array<Octave, LengthClass::kOctaves> octaves_{};
  std::uint64_t some_ = 0; // octaves that somebody is in
  std::array<std::int64_t, kMaxClients> lengths_{};
};

} // namespace fikit::policy
