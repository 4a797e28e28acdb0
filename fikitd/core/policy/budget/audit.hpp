// Has lower work delayed a client by more than its budget was charged? The measure is the time for which the client's host was blocked in
// its waits. Blocked time needs no profile, does not depend on when requests arrive, and bounds the delay of a wait.
//
// The reference is the blocked time of waits without an outstanding lower grant. Waits beside lower work are compared with the reference.
// A lower client may report the end of work that goes on. So where waits are known for which nobody's report counts, and the other waits
// without an outstanding grant are slower, the reference is the former alone.
#pragma once

#include <array>
#include <cstdint>

namespace fikit::policy::budget {

class Audit {
 public:
  // A wait that has ended.
  struct Wait {
    std::uint32_t launches = 0; // of the host between the end of the wait before and this wait
    double blocked_ns = 0; // the host's time in the wait
    double delay_ns = 0;   // the delay that the budget is charged with
    bool clean = false;    // no lower grant was outstanding, by report, between the end of the wait before and the end of this wait
    bool certain = false;  // and none was given for so long that no report is needed
    bool open = false;     // the client's next request comes from outside
  };

  // The delay, in ns, with which the budget has to be charged beyond Wait::delay_ns. Zero unless the excess is no chance.
  double waited(const Wait& wait);
  // Do waits like the newest one come beside lower work again and again, and never without, and are they slow?
  bool lacks_reference() const { return lacks_; }

  // A stop of lower work begins. Waits of the stop are compared with waits beside lower work.
  void stop_begins() { closed_ = {}; }
  // Are waits without lower work about as late, against their kind, as those beside it, or those beside it not late at all? Then the
  // client is late by itself, whatever it says.
  bool late_by_itself() const;

 private:
  static constexpr double kSure = 3;               // standard deviations
  static constexpr double kSlow = 0.01;            // share of blocked time: a smaller excess is left alone
  static constexpr double kEnough = 3;             // clean waits until a kind has a reference
  static constexpr double kOften = 8;              // waits beside lower work until a reference is lacking
  static constexpr double kSlower = 1.1;           // than the fastest wait of the kind: where all are as fast, no reference is needed
  static constexpr double kRemembered = 16;        // clean waits: older waits fade from the reference
  static constexpr double kInexactNs = 20e3;       // of one blocked time
  static constexpr double kTrial = 16;             // waits of a stop until they say something
  static constexpr double kLatelyWaits = 256;
  static constexpr double kLongestNs = 2e9;        // blocked time after which old waits count half

  struct Kind { // of waits: alike in what the host launched before
    std::uint32_t key = 0;
    float waits = 0;
    double mean_ns = 0;
    double variance = 0;
    float certain_waits = 0;
    double certain_ns = 0; // mean of those
    struct { // waits beside lower work, as long as there are too few others
      float waits = 0;
      double mean_ns = 0;
      double least_ns = 0;
    } beside;
    void learn(const Wait& wait);
    bool deceived() const { return certain_waits >= kEnough && mean_ns > kSlower * certain_ns + kInexactNs; }
    double reference_ns() const { return deceived() ? certain_ns : mean_ns; }
    void see_beside(double blocked_ns);
    bool lacks_reference() const;
  };
  Kind& kind(const Wait& wait);
  double compare(const Wait& wait, const Kind& kind);
  struct Late { // lately
    double waits = 0;
    double late_ns = 0;    // beyond the reference: late waits only
    double charged_ns = 0; // to the budget
    double rate_ns() const { return waits > 0 ? late_ns / waits : 0; }
    void add(double late_ns, double charged_ns);
  };

  std::array<Kind, 64> kinds_{}; // by key: a kind replaces another kind of the same place
  std::uint32_t launches_before_ = 0; // before the wait before
  Late beside_;
  Late closed_; // since the newest stop began
  bool open_ = false;
  bool lacks_ = false;
  // Of the waits that were compared lately.
  double excess_ns_ = 0; // blocked time beyond the reference and the delays charged
  double largest_ns_ = 0; // of one wait: a host that was late once says nothing
  double variance_ = 0;   // of excess_ns_
  double blocked_ns_ = 0;
};

} // namespace fikit::policy::budget
