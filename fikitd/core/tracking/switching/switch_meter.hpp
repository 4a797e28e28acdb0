// Measures what a switch of a GPU between processes costs. Work begins later than reckoned by one time after a switch, and by another
// time without one. The difference is the switch; what both have in common (a launch's and a mark's way) cancels out.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace fikit::tracking {

// A switch on one GPU.
struct SwitchCost {
  std::int64_t switch_ns = 0; // a negative one is 0 within the spread
  std::int64_t spread_ns = 0; // the true cost is probably within this distance
  std::uint32_t count = 0;    // of samples, of the kind (switch or none) that has fewer
  int level = 0;              // lowest priority among the clients whose reports it rests on
};

// One sample: a client's work began late_ns later than reckoned.
struct Beginning {
  std::uint32_t client = 0;
  int level = 0;     // the lower of the priorities of the two clients whose reports it rests on (0 is the highest)
  int own_level = 0; // the client's priority
  bool changed = false; // another process had the device before
  bool idle = true;     // the device was idle at the launch, so that the launch's way is part of the lateness
  std::int64_t late_ns = 0;
};

// Lateness comes from reports of untrusted processes. So each value is bounded, each client counts by its medians only, and clients below
// the highest priority that has enough samples do not count.
class SwitchMeter {
 public:
  static constexpr std::size_t kClients = 16;
  static constexpr std::size_t kWindow = 63;             // newest samples of a client and kind
  static constexpr std::size_t kEnough = 8;              // samples of each kind; fewer are no measurement
  static constexpr std::int32_t kAtMostNs = 5'000'000;   // no switch takes longer
  static constexpr int kLowest = 9;

  // turn_ns: the shortest turn of a client where clients take turns. Bounds of precision are fractions of it.
  explicit SwitchMeter(double turn_ns);
  double turn_ns() const { return turn_ns_; }

  void began(const Beginning& beginning);
  // From reports of clients of this level and above only. Empty: not known yet.
  std::optional<SwitchCost> cost(int level = kLowest) const;
  // How many samples there were so far.
  std::uint64_t count() const { return samples_; }
  struct Word {
    std::uint32_t client = 0;
    SwitchCost cost;
  };
  // The cost by each client of the highest level that has enough samples.
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
  // Samples of one kind that rest on reports of one level.
  struct Heard {
    int level = 0;
    bool changed = false;
    bool idle = false;
    Window late;
  };
  struct Client {
    std::uint32_t id = 0;
    int level = 0;
    std::vector<Heard> heard; // at most one for each kind and level
  };
  Client* place(std::uint32_t client, int level);
  static const Heard* heard(const Client& client, bool changed, bool idle, int level);
  std::optional<SwitchCost> word(const Client& client, int level) const;
  std::optional<SwitchCost> word(const Heard& changed, const Heard& kept) const;

  double turn_ns_;
  std::array<Client, kClients> clients_{};
  std::size_t count_ = 0;
  std::uint64_t samples_ = 0;
};

} // namespace fikit::tracking
