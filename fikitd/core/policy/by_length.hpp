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
  // Those of its class that are not known to wait for less than this row, with it.
  Rows not_shorter(std::size_t row) const {
    Rows rows = of(LengthClass::of(lengths_[row]));
    for (std::size_t other = rows.first(); other < kMaxClients; other = rows.next(other + 1))
      if (lengths_[other] < lengths_[row]) rows.set(other, false);
    return rows;
  }
  // Of each octave that somebody is in, its number, the longest first; of each class in it, the same. Until seen() is false.
  template <class Seen>
  void each_octave(Seen seen) const {
    for (std::uint64_t octaves = some_; octaves != 0;) {
      const auto octave = static_cast<std::size_t>(std::bit_width(octaves)) - 1;
      if (!seen(octave)) return;
      octaves &= ~(std::uint64_t{1} << octave);
    }
  }
  template <class Seen>
  void each_class(std::size_t octave, Seen seen) const {
    for (std::uint32_t eighths = octaves_[octave].some; eighths != 0;) {
      const auto eighth = static_cast<std::size_t>(std::bit_width(eighths)) - 1;
      if (!seen(LengthClass{.octave = octave, .eighth = eighth})) return;
      eighths &= ~(1U << eighth);
    }
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
