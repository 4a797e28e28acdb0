#include "job.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "replay/op_kind.hpp"

namespace fikit::simulator {

using replay::EventKind;

namespace {

constexpr std::size_t kNoStep = static_cast<std::size_t>(-1); // a wait for another stream's work
constexpr double kShortGapNs = 20'000; // epsilon_us in fikit.toml

} // namespace

Job::Job(std::uint32_t number, const JobOptions& options, const Costs& costs, const Reactions& seen, emu::DeviceModel& device,
         Notes& notes)
    : number_(number),
      options_(options),
      launch_ns_(options.managed ? costs.launch_ns : 0),
      wake_(costs.wake_ns, seen.wake_ns, seen.draw + number),
      turn_(0, seen.turn_ns, seen.draw + number),
      device_(device),
      notes_(notes),
      host_(options.thinks ? options.trace->plan() : options.trace->thoughtless()),
      process_(device.attach(static_cast<int32_t>(number) + 1, 1, device.state().time_ns)),
      streams_(options.trace->streams().size()),
      numbered_(static_cast<std::size_t>(options.trace->plan().numbers)) {
  if (process_ == emu::kNone)
    throw std::runtime_error("couldn't simulate more than " + std::to_string(emu::kMaxProcesses) + " jobs");
  for (Stream& stream : streams_) {
    stream.slot = device_.open_stream(process_, 0);
    if (stream.slot == emu::kNone)
      throw std::runtime_error("couldn't simulate more than " + std::to_string(emu::kMaxStreams) + " streams");
    stream.steps.resize(emu::kRingOps);
    stream.requests.resize(emu::kRingOps);
    stream.marks.resize(emu::kRingOps);
  }
  if (options_.profile != nullptr && options_.managed) find_gaps();
  next_request(device_.state().time_ns);
}

void Job::note(Note::Kind kind, std::int64_t now_ns, std::uint32_t request, std::uint32_t mark) {
  if (options_.managed) notes_.note({kind, number_, request, host_.finished() ? 0 : host_.index(), now_ns, called_ns_, mark});
}

void Job::find_gaps() {
  gap_after_.resize(trace().plan().steps.size());
  for (std::size_t step = 0; step < gap_after_.size(); ++step) {
    const predictor::Cost* cost = options_.profile->model.cost(trace().identity(step));
    gap_after_[step] = cost != nullptr && cost->gap.mean_ns() > kShortGapNs;
  }
}

// As the shim does for a job that others wait for.
std::uint32_t Job::put_mark() {
  constexpr std::uint64_t kEvery = 32; // mark_every in fikit.toml
  const bool wanted = ++open_launches_ % kEvery == 0 || (!gap_after_.empty() && gap_after_[host_.index()]);
  return wanted ? ++marks_ : 0;
}

policy::Engine Job::engine(std::size_t step) const {
  switch (trace().plan().steps[step].event->kind) {
    case EventKind::copy_to_device: return policy::Engine::to_device;
    case EventKind::copy_to_host: return policy::Engine::to_host;
    default: return policy::Engine::compute;
  }
}

bool Job::copy_asks() const {
  const policy::Engine to = engine(host_.index());
  return to != policy::Engine::compute && copies_ask_[policy::copy_engine(to)] &&
         bytes(host_.index()) >= policy::kLongCopyBytes;
}

void Job::next_request(std::int64_t now_ns) {
  const std::size_t done = requests_.size();
  if (options_.arrivals.empty()) {
    current_.arrival_ns = now_ns;
  } else if (done < options_.arrivals.size()) {
    current_.arrival_ns = options_.arrivals[done];
  } else {
    state_ = State::absent;
    next_ns_ = kNever;
    return;
  }
  host_.begin(std::max(done > 0 ? now_ns + turn_.next_ns() : now_ns, current_.arrival_ns));
  plan_next();
}

void Job::plan_next() {
  state_ = State::calling;
  next_ns_ = std::max(host_.due_ns(), device_.state().time_ns);
}

void Job::act(std::int64_t now_ns) {
  if (state_ == State::passing) {
    host_.spends(launch_ns_);
    issue(now_ns);
  } else if (state_ == State::calling) {
    call(now_ns);
  }
}

void Job::call(std::int64_t now_ns) {
  host_.calls(now_ns);
  called_ns_ = now_ns;
  const EventKind kind = host_.step().event->kind;
  has_grant_ = false;
  if (kind == EventKind::synchronize) {
    state_ = State::waiting;
    next_ns_ = kNever;
    if (!host_.step().waits || awaited_done()) go_on(now_ns);
    return;
  }
  if (kind == EventKind::kernel && options_.managed) {
    if (closed_ && run_ > 0) {
      --run_;
      has_grant_ = true;
    } else if (closed_) {
      mark_end(now_ns);
      ++request_;
      state_ = State::at_gate;
      next_ns_ = kNever;
      note(Note::Kind::waiting, now_ns, request_);
      return;
    }
    host_.spends(launch_ns_);
  } else if (options_.managed && closed_ && copy_asks()) {
    ++request_;
    run_ = 0;
    state_ = State::at_gate;
    next_ns_ = kNever;
    note(Note::Kind::waiting, now_ns, request_);
    return;
  }
  issue(now_ns);
}

void Job::grant(std::uint32_t request, std::uint32_t launches, std::int64_t now_ns) {
  if (state_ != State::at_gate || request != request_) return;
  has_grant_ = true;
  run_ = launches - 1;
  ++granted_;
  state_ = State::passing;
  next_ns_ = now_ns + wake_.next_ns();
}

// As the shim does when it asks again: in the stream in which it launches next, if that is the one.
void Job::mark_end(std::int64_t now_ns) {
  const auto [number, seq, request] = std::exchange(unmarked_, {});
  if (request == 0 || number != options_.trace->stream(host_.index())) return;
  Stream& stream = streams_[number];
  if (seq < stream.collected) notes_.note({Note::Kind::done, number_, request, stream.steps[seq % emu::kRingOps], now_ns});
  else stream.requests[seq % emu::kRingOps] = request;
}

void Job::set_gate(bool closed, std::int64_t now_ns) {
  closed_ = closed;
  run_ = 0;
  if (closed || state_ != State::at_gate) return;
  state_ = State::passing;
  next_ns_ = now_ns + wake_.next_ns();
}

void Job::issue(std::int64_t now_ns) {
  const replay::Step& step = host_.step();
  const bool is_kernel = step.event->kind == EventKind::kernel;
  const bool last_of_run = has_grant_ && run_ == 0; // says that the run is over
  if (step.behind >= 0 && !stands_behind_) {
    const Place& other = numbered_[static_cast<std::size_t>(step.behind)];
    if (!enqueue({.wait_stream = other.slot, .wait_seq = other.seq}, kNoStep, 0)) return;
    stands_behind_ = true;
  }
  if (!enqueue({replay::op_kind(step.event->kind), step.event->duration_ns}, host_.index(), last_of_run ? request_ : 0))
    return;
  stands_behind_ = false;
  if (is_kernel) {
    ++kernels_in_flight_;
    const std::uint32_t mark = has_grant_ || !options_.managed ? 0 : put_mark();
    Stream& stream = stream_of(host_.index());
    const std::uint64_t seq = device_.state().streams[stream.slot].tail - 1;
    stream.marks[seq % emu::kRingOps] = mark;
    const std::size_t number = options_.trace->stream(host_.index());
    unmarked_ = {.stream = number, .seq = seq, .request = has_grant_ && !last_of_run ? request_ : 0};
    note(has_grant_ ? Note::Kind::granted : Note::Kind::launched, now_ns, has_grant_ ? request_ : 0, mark);
  }
  if (engine(host_.index()) != policy::Engine::compute) note(Note::Kind::copied, now_ns, has_grant_ ? request_ : 0);
  if (step.waits) {
    state_ = State::waiting;
    next_ns_ = kNever;
  } else {
    go_on(now_ns);
  }
}

// False: the queue is full, and the job waits for room.
bool Job::enqueue(const emu::OpRequest& op, std::size_t step, std::uint32_t request) {
  Stream& stream = stream_of(host_.index());
  if (device_.full(stream.slot)) {
    state_ = State::queue_full;
    next_ns_ = kNever;
    return false;
  }
  const std::uint64_t seq = device_.enqueue(stream.slot, op);
  stream.steps[seq % emu::kRingOps] = step;
  stream.requests[seq % emu::kRingOps] = request;
  const int number = step == kNoStep ? -1 : host_.step().number;
  if (number >= 0) numbered_[static_cast<std::size_t>(number)] = {stream.slot, seq};
  return true;
}

// The step in hand is over.
void Job::go_on(std::int64_t now_ns) {
  const replay::Step& step = host_.step();
  const bool tells = step.event->kind == EventKind::synchronize || step.event->kind == EventKind::copy_to_host;
  if (step.waits && tells && kernels_in_flight_ == 0) note(Note::Kind::drained, now_ns);
  host_.returns(now_ns);
  if (!host_.finished()) {
    plan_next();
    return;
  }
  state_ = State::at_end;
  called_ns_ = now_ns;
  next_ns_ = kNever;
  collect(now_ns);
}

bool Job::drained() const {
  return std::all_of(streams_.begin(), streams_.end(), [this](const Stream& stream) {
    const emu::StreamState& state = device_.state().streams[stream.slot];
    return state.done == state.tail;
  });
}

// What the step in hand waits for.
bool Job::awaited_done() const {
  const replay::Step& step = host_.step();
  if (step.event->kind != EventKind::synchronize) {
    const emu::StreamState& state = device_.state().streams[streams_[options_.trace->stream(host_.index())].slot];
    return state.done == state.tail;
  }
  if (step.behind < 0) return drained();
  const Place& place = numbered_[static_cast<std::size_t>(step.behind)];
  return device_.done(place.slot, place.seq);
}

void Job::complete(Stream& stream, std::int64_t end_ns, std::uint64_t seq) {
  const std::size_t step = stream.steps[seq % emu::kRingOps];
  if (step == kNoStep) return;
  const std::uint32_t request = stream.requests[seq % emu::kRingOps];
  const replay::Event& event = *options_.trace->plan().steps[step].event;
  if (event.kind != EventKind::kernel) {
    if (request != 0 && engine(step) != policy::Engine::compute)
      notes_.note({Note::Kind::done, number_, request, step, end_ns});
    return;
  }
  --kernels_in_flight_;
  ++kernels_;
  if (keeps_runs_) runs_.push_back({step, end_ns - event.duration_ns, end_ns});
  if (const std::uint32_t mark = stream.marks[seq % emu::kRingOps]; mark != 0)
    notes_.note({.kind = Note::Kind::reached, .job = number_, .step = step, .t_ns = end_ns, .mark = mark});
  if (request != 0) notes_.note({Note::Kind::done, number_, request, step, end_ns});
}

bool Job::collect(std::int64_t now_ns) {
  bool any = false;
  for (Stream& stream : streams_) {
    const emu::StreamState& state = device_.state().streams[stream.slot];
    for (; stream.collected < state.done; ++stream.collected) {
      complete(stream, device_.op(stream.slot, stream.collected).end_ns, stream.collected);
      any = true;
    }
  }
  if (state_ == State::queue_full && any) {
    issue(now_ns);
  } else if (state_ == State::waiting) {
    if (awaited_done()) go_on(now_ns);
  } else if (state_ == State::at_end && drained()) {
    note(Note::Kind::drained, now_ns);
    current_.end_ns = now_ns;
    requests_.push_back(current_);
    next_request(now_ns);
  }
  return any;
}

} // namespace fikit::simulator
