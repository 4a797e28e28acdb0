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
};

struct Lengths {
  std::int64_t shortest_ns = 0;
  std::int64_t longest_ns = kNever;

  bool any() const { return shortest_ns <= longest_ns; }
  bool operator==(const Lengths&) const = default;
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
  // Those that are known to wait for exactly as long as this row, with it.
  Rows equal(std::size_t row) const {
    const LengthClass number = LengthClass::of(lengths_[row]);
    const Class& all = octaves_[number.octave].eighths[number.eighth];
    if (all.only_ns == lengths_[row]) return all.rows;
    Rows itself;
    itself.set(row, true);
    return itself;
  }
  // Between these all lengths lie; none, if nobody is in a class.
  Lengths bounds() const {
    if (some_ == 0) return {.shortest_ns = 0, .longest_ns = -1};
    const auto first = static_cast<std::size_t>(std::countr_zero(some_));
    const auto last = static_cast<std::size_t>(std::bit_width(some_)) - 1;
    return {.shortest_ns = LengthClass{.octave = first, .eighth = first_of(octaves_[first].some)}.shortest_ns(),
            .longest_ns = LengthClass{.octave = last, .eighth = last_of(octaves_[last].some)}.longest_ns()};
  }
  // Those that are known to wait for more than this, or for less.
  Rows longer(std::int64_t ns) const {
    const LengthClass number = LengthClass::of(ns);
    Rows rows = those_of(number, [&](std::int64_t length_ns) { return length_ns > ns; });
    add(rows, number.octave, octaves_[number.octave].some & ~1U << number.eighth);
    return rows | of_octaves(some_ & ~std::uint64_t{1} << number.octave);
  }
  Rows outside(const Lengths& lengths) const {
    return lengths.any() ? shorter(lengths.shortest_ns) | longer(lengths.longest_ns) : of_octaves(some_);
  }
  Rows shorter(std::int64_t ns) const {
    const LengthClass number = LengthClass::of(ns);
    Rows rows = those_of(number, [&](std::int64_t length_ns) { return length_ns < ns; });
    add(rows, number.octave, octaves_[number.octave].some & ((1U << number.eighth) - 1));
    return rows | of_octaves(some_ & ((std::uint64_t{1} << number.octave) - 1));
  }
  bool same_rows(const ByLength& other) const { return lengths_ == other.lengths_; }

 private:
  static std::size_t first_of(std::uint32_t eighths) { return static_cast<std::size_t>(std::countr_zero(eighths)); }
  static std::size_t last_of(std::uint32_t eighths) { return static_cast<std::size_t>(std::bit_width(eighths)) - 1; }
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
  template <class Among>
  Rows those_of(const LengthClass& number, Among among) const {
    const Class& all = octaves_[number.octave].eighths[number.eighth];
    if (all.only_ns >= 0) return among(all.only_ns) ? all.rows : Rows{};
    return all.rows.where([&](std::size_t row) { return among(lengths_[row]); });
  }
  void add(Rows& rows, std::size_t octave, std::uint32_t eighths) const {
    for (; eighths != 0; eighths &= eighths - 1) rows = rows | octaves_[octave].eighths[first_of(eighths)].rows;
  }
  Rows of_octaves(std::uint64_t octaves) const {
    Rows rows;
    for (; octaves != 0; octaves &= octaves - 1) rows = rows | octaves_[static_cast<std::size_t>(std::countr_zero(octaves))].rows;
    return rows;
  }
  std::array<Octave, LengthClass::kOctaves> octaves_{};
  std::uint64_t some_ = 0; // octaves that somebody is in
  std::array<std::int64_t, kMaxClients> lengths_{};
};

} // namespace fikit::policy
