#include "packed_profile.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

namespace fikit::dispatcher {
namespace {

using predictor::Context;
using predictor::Cost;
using predictor::Identity;
using predictor::Kernel;
using predictor::RhythmLearnt;
using predictor::Sketch;
using predictor::Statistics;

constexpr std::uint32_t kMagic = 0x50504b46; // "FKPP"
constexpr std::size_t kNameBytes = 1023;     // at most, as the protocol has it
constexpr std::uint8_t kBeside = 1;          // an entry's flags
constexpr std::uint8_t kInContext = 2;
constexpr std::uint8_t kDoubtful = 4;
constexpr std::uint8_t kBorrowed = 8;
constexpr std::array kParts{&RhythmLearnt::Segment::span, &RhythmLearnt::Segment::tail, &RhythmLearnt::Segment::after,
                            &RhythmLearnt::Segment::next_slack, &RhythmLearnt::Segment::idle};
constexpr std::array kStatistics{&Cost::duration, &Cost::gap, &Cost::boundary};

class Writer {
 public:
  explicit Writer(std::size_t limit) : limit_(limit) {}

  template <class T>
  void put(T value) {
    static_assert(std::is_trivially_copyable_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void put(std::string_view text) {
    put(static_cast<std::uint16_t>(text.size()));
    bytes_.append(text);
  }

  // A number, and so many items. An item that would exceed the limit is taken back.
  class Section {
   public:
    explicit Section(Writer& writer) : writer_(writer), at_(writer.bytes_.size()) { writer.put(std::uint32_t{0}); }
    template <class Write>
    bool add(Write write) {
      const std::size_t before = writer_.bytes_.size();
      write();
      if (writer_.bytes_.size() > writer_.limit_) {
        writer_.bytes_.resize(before);
        return false;
      }
      ++count_;
      std::memcpy(writer_.bytes_.data() + at_, &count_, sizeof count_);
      return true;
    }

   private:
    Writer& writer_;
    std::size_t at_;
    std::uint32_t count_ = 0;
  };

  std::string take() { return std::move(bytes_); }

 private:
  std::size_t limit_;
  std::string bytes_;
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : left_(bytes) {}

  // Past the end: 0, and `good` becomes false.
  template <class T>
  T take() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value{};
    if (left_.size() < sizeof value) return fail(), value;
    std::memcpy(&value, left_.data(), sizeof value);
    left_.remove_prefix(sizeof value);
    return value;
  }
  std::string text(std::size_t most) {
    const std::size_t size = take<std::uint16_t>();
    if (size > most || size > left_.size()) return fail(), std::string();
    std::string text(left_.substr(0, size));
    left_.remove_prefix(size);
    return text;
  }
  void fail() {
    good_ = false;
    left_ = {};
  }
  bool good() const { return good_; }
  bool at_end() const { return left_.empty(); }

 private:
  std::string_view left_;
  bool good_ = true;
};

void put(Writer& writer, const Statistics& statistics) {
  writer.put(statistics.count());
  writer.put(statistics.mean_ns());
  writer.put(statistics.m2_ns2());
  writer.put(static_cast<std::uint16_t>(statistics.histogram().size()));
  for (const auto& [bucket, count] : statistics.histogram()) {
    writer.put(static_cast<std::uint16_t>(bucket));
    writer.put(count);
  }
}

bool take(Reader& reader, Statistics& statistics) {
  const auto count = reader.take<std::uint64_t>();
  const auto mean_ns = reader.take<double>();
  const auto m2_ns2 = reader.take<double>();
  const std::size_t buckets = reader.take<std::uint16_t>();
  if (buckets > predictor::kBuckets) reader.fail();
  predictor::Histogram histogram;
  for (std::size_t i = 0; i < buckets && reader.good(); ++i) {
    const int bucket = reader.take<std::uint16_t>();
    histogram.emplace_back(bucket, reader.take<std::uint64_t>());
  }
  return Statistics::from(count, mean_ns, m2_ns2, std::move(histogram), statistics) && reader.good();
}

void put(Writer& writer, const Kernel& kernel) {
  writer.put(std::string_view(kernel.name).substr(0, kNameBytes));
  writer.put(kernel.module_hash);
  writer.put(kernel.grid);
  writer.put(kernel.block);
  writer.put(kernel.shared_bytes);
  writer.put(kernel.kind);
}

Kernel take_kernel(Reader& reader) {
  Kernel kernel;
  kernel.name = reader.text(kNameBytes);
  kernel.module_hash = reader.take<std::uint64_t>();
  kernel.grid = reader.take<decltype(kernel.grid)>();
  kernel.block = reader.take<decltype(kernel.block)>();
  kernel.shared_bytes = reader.take<std::uint32_t>();
  kernel.kind = reader.take<std::uint32_t>();
  return kernel;
}

void put(Writer& writer, const Sketch& sketch) {
  writer.put(sketch.count);
  writer.put(static_cast<std::uint8_t>(sketch.ns.size()));
  for (const std::int64_t ns : sketch.ns) writer.put(ns);
}

Sketch take_sketch(Reader& reader) {
  Sketch sketch{.count = reader.take<std::uint64_t>(), .ns = {}};
  const std::size_t times = reader.take<std::uint8_t>();
  if (times > TimeQuantiles::kCount) reader.fail();
  for (std::size_t i = 0; i < times && reader.good(); ++i) sketch.ns.push_back(reader.take<std::int64_t>());
  std::sort(sketch.ns.begin(), sketch.ns.end());
  return sketch;
}

// Entries without context come first, of all models: they rest on the most times.
void put_entries(Writer& writer, const Timed& timed) {
  Writer::Section entries(writer);
  for (const bool in_context : {false, true}) {
    for (const predictor::Model* model : {&timed.alone, &timed.beside, &timed.doubtful}) {
      model->for_each([&](const Kernel& kernel, const Context* context, const Cost& cost) {
        if ((context != nullptr) != in_context) return;
        entries.add([&] {
          const int which = model == &timed.beside ? kBeside : model == &timed.doubtful ? kDoubtful : 0;
          const Identity identity = identify(kernel);
          const bool borrowed = model == &timed.alone && timed.borrowed.contains(identity);
          writer.put(static_cast<std::uint8_t>(which | (in_context ? kInContext : 0) | (borrowed ? kBorrowed : 0)));
          writer.put(identity);
          if (in_context) writer.put(context->last);
          for (const auto statistics : kStatistics) put(writer, cost.*statistics);
        });
      });
    }
  }
}

void take_entry(Reader& reader, Timed& timed) {
  const auto flags = reader.take<std::uint8_t>();
  const auto identity = reader.take<Identity>();
  Context context;
  if (flags & kInContext) context.last = reader.take<decltype(context.last)>();
  Cost cost;
  bool whole = identity != 0;
  for (const auto statistics : kStatistics) whole = take(reader, cost.*statistics) && whole;
  if (!whole || !reader.good() || context.full() != ((flags & kInContext) != 0)) return;
  (flags & kDoubtful ? timed.doubtful : flags & kBeside ? timed.beside : timed.alone).merge(identity, context, cost);
  if (flags & kBorrowed) timed.borrowed.insert(identity);
}

// An iteration is packed as a whole or left out.
void put(Writer& writer, const predictor::AccessesLearnt& accesses) {
  {
    Writer::Section pages(writer);
    for (const std::uint32_t each : accesses.pages) pages.add([&] { writer.put(each); });
  }
  Writer::Section iterations(writer);
  for (const predictor::Iteration& iteration : accesses.iterations)
    iterations.add([&] {
      writer.put(iteration.path);
      writer.put(iteration.length_ns);
      writer.put(iteration.passes);
      writer.put(static_cast<std::uint32_t>(iteration.steps.size()));
      for (const predictor::Step& step : iteration.steps) {
        writer.put(step.kernel);
        writer.put(step.duration_ns);
        writer.put(step.scans);
        writer.put(static_cast<std::uint16_t>(step.touches.size()));
        for (const predictor::Touch& touch : step.touches) writer.put(touch);
        writer.put(static_cast<std::uint16_t>(step.frees.size()));
        for (const predictor::Free& free : step.frees) writer.put(free);
      }
    });
}

// False: the bytes are no valid step.
bool take_step(Reader& reader, predictor::Step& step) {
  step.kernel = reader.take<Identity>();
  step.duration_ns = reader.take<std::int64_t>();
  step.scans = reader.take<std::uint32_t>();
  const std::size_t touches = reader.take<std::uint16_t>();
  if (touches > predictor::Accesses::kMaxTouches) reader.fail();
  for (std::size_t i = 0; i < touches && reader.good(); ++i) step.touches.push_back(reader.take<predictor::Touch>());
  const std::size_t frees = reader.take<std::uint16_t>();
  if (frees > predictor::Accesses::kMaxTouches) reader.fail();
  for (std::size_t i = 0; i < frees && reader.good(); ++i) step.frees.push_back(reader.take<predictor::Free>());
  const auto is_number = [](const auto& each) { return each.allocation < predictor::Accesses::kMaxAllocations; };
  return step.duration_ns >= 0 && step.duration_ns <= predictor::kMaxNs && std::ranges::all_of(step.touches, is_number) &&
         std::ranges::all_of(step.frees, is_number);
}

void take_iteration(Reader& reader, predictor::AccessesLearnt& accesses) {
  predictor::Iteration iteration;
  iteration.path = reader.take<std::uint64_t>();
  iteration.length_ns = reader.take<std::int64_t>();
  iteration.passes = reader.take<std::uint64_t>();
  const std::size_t steps = reader.take<std::uint32_t>();
  if (steps > predictor::Accesses::kMaxLaunches) reader.fail();
  bool can_be = iteration.length_ns >= 0 && iteration.length_ns <= predictor::kMaxNs;
  for (std::size_t i = 0; i < steps && reader.good(); ++i) can_be = take_step(reader, iteration.steps.emplace_back()) && can_be;
  if (can_be && reader.good() && accesses.iterations.size() < predictor::Accesses::kMaxIterations)
    accesses.iterations.push_back(std::move(iteration));
}

void take(Reader& reader, predictor::AccessesLearnt& accesses) {
  const std::size_t pages = reader.take<std::uint32_t>();
  if (pages > predictor::Accesses::kMaxAllocations) reader.fail();
  for (std::size_t i = 0; i < pages && reader.good(); ++i) accesses.pages.push_back(reader.take<std::uint32_t>());
  for (auto left = reader.take<std::uint32_t>(); left > 0 && reader.good(); --left) take_iteration(reader, accesses);
}

void put(Writer& writer, const forecaster::Learnt& learnt) {
  Writer::Section slacks(writer);
  for (const auto& slack : learnt.rhythm.slacks)
    slacks.add([&] {
      writer.put(slack.first);
      put(writer, slack.second);
    });
  Writer::Section segments(writer);
  for (const auto& segment : learnt.rhythm.segments)
    segments.add([&] {
      writer.put(segment.first);
      for (const auto part : kParts) put(writer, segment.second.*part);
    });
  Writer::Section runs(writer);
  for (const auto& run : learnt.runs)
    runs.add([&] {
      writer.put(run.first);
      writer.put(run.second.launches);
      writer.put(run.second.work_ns);
    });
  put(writer, learnt.accesses);
}

void take(Reader& reader, forecaster::Learnt& learnt) {
  for (auto left = reader.take<std::uint32_t>(); left > 0 && reader.good(); --left) {
    const auto position = reader.take<std::uint64_t>();
    learnt.rhythm.slacks.emplace_back(position, take_sketch(reader));
  }
  for (auto left = reader.take<std::uint32_t>(); left > 0 && reader.good(); --left) {
    auto& [path, segment] = learnt.rhythm.segments.emplace_back();
    path = reader.take<std::uint64_t>();
    for (const auto part : kParts) segment.*part = take_sketch(reader);
  }
  for (auto left = reader.take<std::uint32_t>(); left > 0 && reader.good(); --left) {
    const auto place = reader.take<std::uint64_t>();
    const auto launches = reader.take<std::uint32_t>();
    const auto work_ns = reader.take<std::int64_t>();
    if (launches >= 1 && work_ns >= 0 && work_ns <= predictor::kMaxNs)
      learnt.runs.emplace_back(place, Launches{.launches = launches, .work_ns = work_ns});
  }
  take(reader, learnt.accesses);
}

bool is_empty(const forecaster::Learnt& learnt) {
  return learnt.rhythm.slacks.empty() && learnt.rhythm.segments.empty() && learnt.runs.empty() && learnt.accesses.iterations.empty();
}

} // namespace

std::string pack(const Timed& timed, const forecaster::Learnt& learnt, Names names, std::size_t limit) {
  if (timed.alone.empty() && timed.beside.empty() && timed.doubtful.empty() && is_empty(learnt)) return {};
  constexpr std::size_t kNumbers = 8 * sizeof(std::uint32_t); // size of an empty profile
  Writer writer(std::max(limit, kNumbers) - kNumbers);
  writer.put(kMagic);
  {
    Writer::Section kernels(writer);
    if (names == Names::with) {
      const auto add = [&](const Kernel& kernel, const Context* context, const Cost&) {
        if (context == nullptr) kernels.add([&] { put(writer, kernel); });
      };
      timed.alone.for_each(add);
      timed.beside.for_each(add);
      timed.doubtful.for_each(add);
    }
  }
  put_entries(writer, timed);
  put(writer, learnt);
  return writer.take();
}

bool unpack(std::string_view bytes, Timed& timed, forecaster::Learnt& learnt) {
  if (bytes.empty()) return true;
  Reader reader(bytes);
  if (reader.take<std::uint32_t>() != kMagic) return false;
  for (auto left = reader.take<std::uint32_t>(); left > 0 && reader.good(); --left) {
    const Kernel kernel = take_kernel(reader);
    if (!reader.good()) break;
    timed.alone.describe(kernel);
    timed.beside.describe(kernel);
    timed.doubtful.describe(kernel);
  }
  for (auto left = reader.take<std::uint32_t>(); left > 0 && reader.good(); --left) take_entry(reader, timed);
  take(reader, learnt);
  return reader.good() && reader.at_end();
}

} // namespace fikit::dispatcher
