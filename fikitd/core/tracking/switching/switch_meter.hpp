// How long a GPU's compute engine takes to go to another process, by what fikitd sees: work begins so much later than
// reckoned after the device has changed hands, and so much after it has not. What both have in common (a launch's way, a
// mark's) falls out.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace fikit::tracking {

// Of one GPU.
struct SwitchCost {
  std::int64_t switch_ns = 0; // less than nothing: nothing, within the spread
  std::int64_t spread_ns = 0; // the true one is probably no further away
  std::uint32_t count = 0;    // of the late beginnings that say so, of the rarer kind
  int level = 0;              // of the least important client whose reports it rests on
};

// A client's work began so much later than reckoned.
struct Beginning {
  std::uint32_t client = 0;
  int level = 0;     // of the less important of the two whose reports say so; 0 is the most important
  int own_level = 0; // of the client's priority
  bool changed = false; // another process had the device before
  bool idle = true;     // the device was, when the work was launched: its way to there is part of the lateness
  std::int64_t late_ns = 0;
};

// Lateness comes from what processes report of themselves, which are not trusted: each value is bounded, each client speaks
// by its medians, and clients below the most important one that is known do not count.
class SwitchMeter {
 public:
  static constexpr std::size_t kClients = 16;
  static constexpr std::size_t kWindow = 63;             // newest of a client and kind
  static constexpr std::size_t kEnough = 8;              // of each kind; less tells nothing
  static constexpr std::int32_t kAtMostNs = 5'000'000;   // no switch takes longer
  static constexpr int kLowest = 9;

  // turn_ns: so long at least a client has the device where clients take turns. What is sure, and what agrees, are parts of it.
  explicit SwitchMeter(double turn_ns);
  double turn_ns() const { return turn_ns_; }

  void began(const Beginning& beginning);
  // By what clients of this level and those above it have reported, and of no others. None: not known yet.
  std::optional<SwitchCost> cost(int level = kLowest) const;
  // How many beginnings have told something so far.
  std::uint64_t count() const { return wait_reasons_; }
  struct Word {
    std::uint32_t client = 0;
    SwitchCost cost;
  };
  // What each client of the most important level that is known says.
  std::vector<Word> words() const;

 private:
  class Window {
   public:
    void add(std::int32_t ns);
    std::size_t count() const { return count_; }
    std::int64_t median() const;
    std::int64_t deviation() const; // median distance from the median
    std::int64_t half_width() const; // of the middle half of the values

   private:
    std::array<std::int32_t, kWindow> values_{};
    std::size_t count_ = 0;
    std::size_t next_ = 0;
  };
  // Of one kind, by the reports of one level.
  struct Heard {
    int level = 0;
    bool changed = false;
    bool idle = false;
    Window late;
  };
  struct Client {
    std::uint32_t id = 0;
    int level = 0;
    std::vector<Heard> heard; // at most one of a kind and level
  };
  Client* place(std::uint32_t client, int level);
  static const Heard* heard(const Client& client, bool changed, bool idle, int level);
  std::optional<SwitchCost> word(const Client& client, int level) const;
  std::optional<SwitchCost> word(const Heard& changed, const Heard& kept) const;

  double turn_ns_;
  std::array<Client, kClients> clients_{};
  std::size_t count_ = 0;
  std::uint64_t wait_reasons_ = 0;
};

} // namespace fikit::tracking
