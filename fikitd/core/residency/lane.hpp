// The link as a timetable that repeats: one transfer at a time, in either direction.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

namespace fikit::residency {

// Times are ns from the beginning of an iteration; those beyond its end are in the next one.
class Lane {
 public:
  explicit Lane(std::int64_t period_ns) : period_ns_(period_ns) {}

  // The earliest, and the latest, begin of a free time of length_ns within [from_ns, until_ns); nothing: there is none. from_ns is 0 or later, the range at
  // most one period long.
  std::optional<std::int64_t> earliest(std::int64_t from_ns, std::int64_t until_ns, std::int64_t length_ns) const;
  std::optional<std::int64_t> latest(std::int64_t from_ns, std::int64_t until_ns, std::int64_t length_ns) const;

  void take(std::int64_t begin_ns, std::int64_t length_ns);      // a part of a free time
  void give_back(std::int64_t begin_ns, std::int64_t length_ns); // what was taken

 private:
  struct Part {
    std::int64_t begin_ns, end_ns;
  };
  // The first busy part that ends after at_ns, and the last one that begins before it, counted in the same iterations as at_ns; nothing: the link is never
  // busy.
  std::optional<Part> ends_after(std::int64_t at_ns) const;
  std::optional<Part> begins_before(std::int64_t at_ns) const;
  void add(std::int64_t begin_ns, std::int64_t end_ns);
  void remove(std::int64_t begin_ns, std::int64_t end_ns);

  std::int64_t period_ns_;
  std::map<std::int64_t, std::int64_t> busy_; // begin -> end within one period; parts that touch are one
};

} // namespace fikit::residency
