// When does a client's host wait for the device? Between two waits it only enqueues, so device work that comes late there
// delays nothing but what the host will wait for. The slack of a launch is the time for which the device would be idle
// between it and the end of the host's next wait, were the client alone: so much of it others may have for nothing.
//
// Programs repeat themselves: a position is known by everything launched since the last wait, and where that was never
// seen by the last few kernels. What is launched between two waits is called a segment here.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kernel.hpp"
#include "recent.hpp"
#include "room.hpp"
#include "segment_alone.hpp"
#include "statistics.hpp"

namespace fikit::predictor {

// What runs before this one have learnt, or what this one has: sketches by position and by kind of segment. These are hashes
// of what was launched; the same programs have the same ones in every run.
struct RhythmLearnt {
  static constexpr int kVersion = 1; // of the hashes
  struct Segment {
    Sketch span;
    Sketch tail;
    Sketch after;
    Sketch next_slack;
    Sketch idle;
  };
  std::vector<std::pair<std::uint64_t, Sketch>> slacks;
  std::vector<std::pair<std::uint64_t, Segment>> segments;
};

// Of a launch.
struct Foretold {
  TimeQuantiles slack{};
  std::int64_t dry_ns = kLongAgo; // alone, all that was launched since the last wait is done then
};

// After a wait: what is known of the segment that it ended, and of the next one.
struct Pause {
  std::int64_t end_ns = kLongAgo; // alone, the wait would have ended then; kLongAgo: it waited for nothing
  std::int64_t span_ns = kUnknown; // the segment alone, from its first launch to the end of the wait; at most
  std::int64_t tail_ns = kUnknown; // the same from its last launch; at least
  // Alone, the wait ends so much later than the segment's work, as reckoned, and its own beginning; negative where the work
  // is reckoned too long; kLongAgo: unknown.
  std::int64_t after_ns = kLongAgo;
  TimeQuantiles slack{};             // of the next segment, from its first launch on
  TimeQuantiles idle{};              // until then
  std::optional<TimeQuantiles> alone_idle; // the same where nobody else is on the device, as far as is known
  bool open = false;         // the next launch sometimes follows at once and sometimes long after
};

class Rhythm {
 public:
  static constexpr std::size_t kMaxPositions = 65536; // of launches; a program cannot fill the daemon's memory
  static constexpr std::size_t kMaxSegments = 1024;   // kinds of
  static constexpr std::size_t kMaxLaunches = 32768;  // of one segment that are learnt from

  static constexpr std::int64_t kLongIdleNs = 1'000'000; // as Tuning::long_idle_ns has it
  // Another one: how long an idle time must be at least to be one between requests that come from outside.
  void set_long_idle(std::int64_t ns) { long_idle_ns_ = ns; }

  // From now on only as much is learnt as this has room for.
  void keep_within(std::shared_ptr<Room> room) { claim_ = Claim(std::move(room)); }

  // A launch at t_ns of predicted length (negative: unknown), which takes in_line_ns more of the device where it stands in
  // line. What it has: how late may it be, and when would all its client's work so far be over, were it alone?
  Foretold launched(std::int64_t t_ns, Identity identity, std::int64_t duration_ns, std::int64_t in_line_ns);
  // The host's wait for all work ended at t_ns; it began at began_ns. `alone`: nobody else's work
  // was on the device, so this segment says what the client does alone.
  Pause waited(std::int64_t t_ns, bool alone, std::int64_t began_ns = kLongAgo);

  // The slack of the segment that comes next, from its first launch on, whichever it is: the least of all that are known.
  TimeQuantiles any_slack() const;

  // Begin with what earlier runs have learnt, where this one has learnt nothing yet. A few values of its own, and that is
  // forgotten.
  void expect(const RhythmLearnt& before);
  // By this run alone, where a second time has confirmed it; the best known first, at most kMaxLearnt positions.
  static constexpr std::size_t kMaxLearnt = 16384;
  RhythmLearnt learnt() const;

 private:
  struct Mark { // of a launch of the current segment
    std::uint64_t path = 0;
    std::uint64_t nearby = 0;
    std::int64_t dry_ns = 0;
    std::int64_t work_ns = 0;
  };
  struct Segment {
    Recent span;
    Recent tail;
    Recent after;
    Recent next_slack;
    Recent idle_here;
    Recent idle_alone; // with nobody else on the device
    Statistics idle; // what was expected, once, and what was seen
  };
  void begin(std::int64_t t_ns);
  void learn(std::int64_t end_ns, std::int64_t began_ns);
  void learn_at(std::uint64_t position, std::int64_t slack_ns);
  Pause pause() const;
  TimeQuantiles slack_at(std::uint64_t nearby) const;
  Recent* position(std::uint64_t key); // that it can learn about; nullptr: there is no room
  Segment* segment(std::uint64_t path);

  Claim claim_;
  std::unordered_map<std::uint64_t, Recent> positions_;
  std::unordered_map<std::uint64_t, Segment> segments_;
  std::vector<Mark> marks_;
  Context context_;
  std::uint64_t path_ = 0;      // hash of the identities since the last wait
  std::uint64_t last_path_ = 0; // of the segment before; 0: there was none
  SegmentAlone segment_;        // this one
  std::int64_t waited_ns_ = 0;
  std::int64_t long_idle_ns_ = kLongIdleNs;
};

} // namespace fikit::predictor
