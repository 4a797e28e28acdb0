// A set of clients, by their rows in the ClientTable: one bit each, so that a loop over clients of a kind looks at no other client.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace fikit::policy {

inline constexpr std::size_t kMaxClients = 192;

class ClientSet {
 public:
  void set(std::size_t row, bool in) {
    std::uint64_t& word = words_[row / kBits];
    const std::uint64_t bit = std::uint64_t{1} << row % kBits;
    word = in ? word | bit : word & ~bit;
  }
  bool has(std::size_t row) const { return (words_[row / kBits] >> row % kBits & 1) != 0; }
  bool any() const {
    std::uint64_t all = 0;
    for (const std::uint64_t word : words_) all |= word;
    return all != 0;
  }
  // The first row of the set from this row on; kMaxClients: there is none.
  std::size_t next(std::size_t row) const {
    if (row >= kMaxClients) return kMaxClients;
    std::size_t number = row / kBits;
    std::uint64_t word = words_[number] & ~std::uint64_t{0} << row % kBits;
    while (word == 0) {
      if (++number == words_.size()) return kMaxClients;
      word = words_[number];
    }
    return number * kBits + static_cast<std::size_t>(std::countr_zero(word));
  }
  std::size_t first() const { return next(0); }
  std::size_t last() const { // kMaxClients: there is none
    for (std::size_t number = words_.size(); number-- > 0;)
      if (words_[number] != 0)
        return number * kBits + kBits - 1 - static_cast<std::size_t>(std::countl_zero(words_[number]));
    return kMaxClients;
  }
  // The rows of the set before this row.
  ClientSet before(std::size_t row) const {
    ClientSet rows;
    for (std::size_t number = 0; number < words_.size(); ++number) {
      const std::size_t begin = number * kBits;
      const std::uint64_t mask = row >= begin + kBits ? ~std::uint64_t{0}
                                 : row <= begin       ? 0
                                                      : (std::uint64_t{1} << (row - begin)) - 1;
      rows.words_[number] = words_[number] & mask;
    }
    return rows;
  }

  friend ClientSet operator&(ClientSet a, const ClientSet& b) {
    for (std::size_t number = 0; number < a.words_.size(); ++number) a.words_[number] &= b.words_[number];
    return a;
  }
  friend ClientSet operator|(ClientSet a, const ClientSet& b) {
    for (std::size_t number = 0; number < a.words_.size(); ++number) a.words_[number] |= b.words_[number];
    return a;
  }
  ClientSet without(const ClientSet& others) const {
    ClientSet rows = *this;
    for (std::size_t number = 0; number < words_.size(); ++number) rows.words_[number] &= ~others.words_[number];
    return rows;
  }
  bool operator==(const ClientSet&) const = default;

 private:
  static constexpr std::size_t kBits = 64;
  std::array<std::uint64_t, kMaxClients / kBits> words_{};
};

} // namespace fikit::policy
