// A table that only grows, for look-ups in two or three cache misses: entries stay where they are, their places are found by
// hash in one array. std::unordered_map takes five for the same, and a division.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

namespace fikit::predictor {

template <class Key, class Value, class Hash>
class Table {
 public:
  struct Entry {
    Key key;
    Value value;
  };

  const Value* find(const Key& key) const {
    const std::size_t found = look(key, Hash{}(key));
    return found == kNone ? nullptr : &entries_[found].value;
  }
  Value* find(const Key& key) { return const_cast<Value*>(static_cast<const Table&>(*this).find(key)); }

  // The value of a key that is not there yet.
  Value& add(const Key& key) {
    if (2 * (entries_.size() + 1) > places_.size()) grow();
    entries_.push_back({key, Value{}});
    put(Hash{}(key), entries_.size());
    return entries_.back().value;
  }

  const std::deque<Entry>& entries() const { return entries_; } // in the order in which they came
  std::size_t size() const { return entries_.size(); }

 private:
  static constexpr std::size_t kNone = SIZE_MAX;
  static constexpr std::size_t kFirst = 64;

  struct Place {
    std::uint64_t hash = 0;
    std::size_t number = 0; // of the entry, from 1; 0: free
  };

  std::size_t look(const Key& key, std::uint64_t hash) const {
    const std::size_t mask = places_.size() - 1;
    for (std::size_t i = hash & mask; !places_.empty() && places_[i].number != 0; i = (i + 1) & mask)
      if (places_[i].hash == hash && entries_[places_[i].number - 1].key == key) return places_[i].number - 1;
    return kNone;
  }

  void put(std::uint64_t hash, std::size_t number) {
    const std::size_t mask = places_.size() - 1;
    std::size_t i = hash & mask;
    while (places_[i].number != 0) i = (i + 1) & mask;
    places_[i] = {hash, number};
  }

  void grow() {
    const std::vector<Place> before = std::move(places_);
    places_.assign(before.empty() ? kFirst : 2 * before.size(), {});
    for (const Place& place : before)
      if (place.number != 0) put(place.hash, place.number);
  }

  std::vector<Place> places_; // a power of two, at most half full
  std::deque<Entry> entries_;
};

} // namespace fikit::predictor
