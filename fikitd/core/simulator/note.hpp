// What a job writes on its page, or the device does there, on its way to whoever reads pages.
#pragma once

#include <cstddef>
#include <cstdint>

#include "policy/base/progress.hpp"
#include "tracking/client_page.hpp"

namespace fikit::simulator {

inline constexpr std::int64_t kNever = policy::kNever;

struct Note {
  enum class Kind : std::uint8_t {
    report,  // an entry of the ring
    request, // the job stands at its gate: the page says what with
    reached, // the device has come to mark report.slot
  };
  Kind kind = Kind::report;
  std::uint32_t job = 0;
  std::size_t step = 0; // that the job was at; only an oracle looks at it
  tracking::Report report;
};

class Notes {
 public:
  virtual ~Notes() = default;
  virtual void note(const Note& note) = 0;
};

} // namespace fikit::simulator
