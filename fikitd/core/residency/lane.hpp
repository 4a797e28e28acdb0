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

  // The earliest, and the latest, begin of so long a free time within [from_ns, until_ns), which is at most a period long and begins at 0 or
  // later; none: nothing.
  std::optional<std::int64_t> earliest(std::int64_t from_ns, std::int64_t until_ns, std::int64_t length_ns) const;
  std::optional<std::int64_t> latest(std::int64_t from_ns, std::int64_t until_ns, std::int64_t length_ns) const;

  void take(std::int64_t begin_ns, std::int64_t length_ns); // of a free time
  void give(std::int64_t begin_ns, std::int64_t length_ns); // back what was taken

 private:
  struct Part {
    std::int64_t begin_ns, end_ns;
  };
  // The busy part that ends after at_ns, and the one that begins before it, in the time of at_ns; none: nothing is busy.
  std::optional<Part> ends_after(std::int64_t at_ns) const;
  std::optional<Part> begins_before(std::int64_t at_ns) const;
  void add(std::int64_t begin_ns, std::int64_t end_ns);
  void remove(std::int64_t begin_ns, std::int64_t end_ns);

  std::int64_t period_ns_;
  std::map<std::int64_t, std::int64_t> busy_; // begin -> end within one period; neighbours are one
};

} // namespace fikit::residency
