// Which memory the kernels of a program's iteration touch, in the order in which they are launched: for who moves memory out of the way
// and back in time (docs/design/residency.md, case B).
//
// An iteration is what the host does again and again: a number of segments (rhythm.hpp: launches between two waits) that came twice, one
// row after the other. It begins with the segment that makes the row of their hashes least, so that every run of the program
// begins it there. What a launch touches is said of some of them only, those that the shim times; the iteration's position of a
// launch puts together what different passes have said.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "kernel.hpp"
#include "room.hpp"

namespace fikit::predictor {

// A place that a launch names: a kernel's arguments, or copies and memsets, which say where they end.
struct Touch {
  std::uint32_t allocation = 0; // its number
  std::uint32_t page = 0;       // of 4 KiB, from the allocation's begin
  std::uint32_t count = 0;      // of the passes that were looked at
  std::uint32_t length = 0;     // pages from there on that are touched; 0: not known
  bool operator==(const Touch&) const = default;
};

// Memory that the program gives back: its content is needed by nobody until the next launch that names memory with its number.
struct Free {
  std::uint32_t allocation = 0;
  std::uint32_t count = 0; // of the passes; that it was given back is said in each of them
  bool operator==(const Free&) const = default;
};

struct Step { // a launch of the iteration
  Identity kernel = 0;
  std::int64_t duration_ns = 0; // alone; 0: not known
  std::uint32_t scans = 0;      // passes in which it was looked at
  std::vector<Touch> touches;   // by allocation, page and length
  std::vector<Free> frees;      // behind it, before the next launch; by allocation
};

struct Iteration {
  std::uint64_t path = 0;     // hash of its launches
  std::int64_t length_ns = 0; // the shortest that was seen, with pauses; 0: none was
  std::uint64_t passes = 0;
  std::vector<Step> steps;
};

struct AccessesLearnt {
  static constexpr int kVersion = 1; // of the hashes
  std::vector<std::uint32_t> pages; // of an allocation, by its number; 0: not known
  std::vector<Iteration> iterations; // the most time first
};

// Both of the same program. What one says of a pass the other does not say again.
void merge(AccessesLearnt& into, const AccessesLearnt& other);

class Accesses {
 public:
  // A program cannot fill the daemon's memory.
  static constexpr std::size_t kMaxIterations = 4;
  static constexpr std::size_t kMaxSegments = 64;     // of an iteration
  static constexpr std::size_t kMaxLaunches = 16384;  // of an iteration
  static constexpr std::size_t kMaxTouches = 128;     // of a launch, in all passes
  static constexpr std::size_t kMaxAllocations = 4096;
  static constexpr std::size_t kMaxPending = 16384;   // places said of launches of which it is not known yet where they belong

  Accesses() = default;
  Accesses(const Accesses&) = delete; // it follows one of its own
  Accesses& operator=(const Accesses&) = delete;

  // From now on only as much is learnt as this has room for.
  void keep_within(std::shared_ptr<Room> room) { room_ = std::move(room); }

  // Launch number `number`, which goes up by one each time; duration_ns: alone, negative where it is not known.
  void launched(std::uint64_t number, Identity kernel, std::int64_t duration_ns);
  // The host's wait for all of them has ended.
  void waited(std::int64_t t_ns);
  // Launches were not seen.
  void missed();

  // A launch with this number, of this kernel, was looked at; then, place by place, what it names. What cannot be is ignored: all of it
  // is an untrusted program's word.
  void scanned(std::uint64_t number, Identity kernel);
  // length: of the place, in pages; 0: not known.
  void touched(std::uint64_t number, std::uint32_t allocation, std::uint32_t page, std::uint32_t pages, std::uint32_t length = 0);

  // Behind the launch with this number, and before the next one, the program gave this memory back.
  void freed(std::uint64_t number, std::uint32_t allocation);

  // What runs before this one have learnt; nullptr: nothing.
  void expect(std::shared_ptr<const AccessesLearnt> before) { before_ = std::move(before); }
  AccessesLearnt learnt() const; // by this run
  AccessesLearnt known() const;  // by it and those before: of the iteration that it is in alone

  // The same in parts, for who must not hold this one up for as long as it takes to copy all of it (tens of ms): read() until it is complete, which
  // begins anew where the program is in another iteration meanwhile; then known() of what was read, for which this one is not needed.
  class Reading {
   public:
    AccessesLearnt known() &&;

   private:
    friend class Accesses;
    const Iteration* of_ = nullptr;
    AccessesLearnt found_;
    std::shared_ptr<const AccessesLearnt> before_;
  };
  bool read(Reading& into, std::size_t steps) const; // so many launches more; whether it is complete

  // Where it is: in which of the iterations of learnt(), and after how many of its launches it last waited. nullptr: in none.
  const Iteration* now() const { return following_; }
  std::size_t step() const { return step_; }
  std::uint64_t waited_at() const { return waited_at_; } // launches until that wait
  std::int64_t latest_ns() const { return latest_ns_; } // the newest pass of the iteration that it is in, wherever it began; 0: not known

 private:
  struct Launch {
    Identity kernel = 0;
    std::int64_t duration_ns = 0;
  };
  struct Segment {
    std::uint64_t hash = 0;
    std::uint64_t first = 0; // number of its first launch
    std::int64_t end_ns = 0; // of the wait behind it
    std::vector<Launch> launches;
  };
  struct Followed { // an iteration as it was recognised
    bool has(std::size_t i, const Segment& segment) const; // as its segment number i
    Claim claim; // what it takes of the room
    Iteration learnt;
    std::vector<std::uint64_t> hashes; // of its segments
    std::vector<std::size_t> begins;   // of these, in steps
  };
  struct Place { // said of a launch; pages 0: it was looked at, and nothing else
    std::uint64_t number = 0;
    Identity kernel = 0;
    Touch touch;
    std::uint32_t pages = 0;
  };
  struct Given { // back, behind a launch
    std::uint64_t number = 0;
    std::uint32_t allocation = 0;
  };
  static bool same(const Segment& one, const Segment& other);
  bool follows();                       // the newest segment is the next one of the iteration
  void passed();                        // ...and now it has been
  void look_at_length();
  std::size_t period() const;           // in segments; 0: there is none
  void recognise(std::size_t segments); // the newest ones are an iteration
  Followed* find(std::size_t first, std::size_t segments, std::size_t begin);
  Followed* make(std::size_t first, std::size_t segments, std::uint64_t path);
  void place(const Segment& segment, Followed& followed, std::size_t begin); // what was said of its launches, and how long they take
  void put(Step& step, const Place& place, Claim& claim);
  void forget_old();

  std::shared_ptr<Room> room_;
  Segment segment_; // this one
  std::deque<Segment> segments_; // the newest last
  std::size_t launches_kept_ = 0; // in them
  bool broken_ = false; // launches of this segment were not seen, or too many
  std::deque<Place> pending_; // as it was said
  std::deque<Given> given_;   // back, of which it is not known yet where that belongs
  std::vector<std::uint32_t> pages_;
  std::vector<std::unique_ptr<Followed>> known_;
  std::shared_ptr<const AccessesLearnt> before_;
  Followed* here_ = nullptr;
  const Iteration* following_ = nullptr;
  std::size_t next_segment_ = 0; // of here_
  std::size_t step_ = 0;
  std::uint64_t waited_at_ = 0;
  std::int64_t latest_ns_ = 0;
};

} // namespace fikit::predictor
