// The newest events of one client, for a picture of its schedule: a ring of a fixed size, written by the dispatcher.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <type_traits>
#include <vector>

namespace fikit::tracking {

// fikitd/fikitd/api/traces.py reads the events as they lie in memory.
enum class JournalKind : std::uint8_t {
  launch, // of slot at t_ns; length_ns: predicted, predicted_ns: when it is reckoned to end; negative: unknown
  grant,  // to the request of slot
  wait,   // of slot, for length_ns, with reason and by: one event for each reason in turn; the last may go on
  gap,    // the device was idle for length_ns from t_ns on, predicted_ns had been expected (negative: unknown)
  drain,  // a synchronisation of the host has ended: all its work is complete
};
inline constexpr std::array<std::string_view, 5> kJournalKinds{"launch", "grant", "wait", "gap", "drain"};

struct JournalEvent {
  std::int64_t t_ns;
  std::int64_t length_ns;
  std::int64_t predicted_ns;
  std::uint32_t by; // client
  std::uint16_t slot;
  JournalKind kind;
  std::uint8_t reason; // policy::Reason
};
static_assert(sizeof(JournalEvent) == 32 && std::is_trivially_default_constructible_v<JournalEvent>);

class Journal {
 public:
  // Room for so many events, rounded up to a power of two; 0: keeps none. Memory that was never written costs nothing.
  explicit Journal(std::size_t events);

  void add(const JournalEvent& event) {
    if (events_ != nullptr) events_[count_++ & mask_] = event;
  }
  bool keeps() const { return events_ != nullptr; }
  std::vector<JournalEvent> events() const; // in the order of writing
  std::uint64_t lost() const { return count_ > mask_ ? count_ - mask_ - 1 : 0; }

 private:
  std::unique_ptr<JournalEvent[]> events_;
  std::uint64_t mask_ = 0;
  std::uint64_t count_ = 0;
};

} // namespace fikit::tracking
