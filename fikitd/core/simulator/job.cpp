#include "job.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "replay/op_kind.hpp"

namespace fikit::simulator {

using replay::EventKind;

namespace {

constexpr std::size_t kNoStep = static_cast<std::size_t>(-1); // a wait for another stream's work

static_assert(kNever == emu::kNever);

template <class T>
void set(std::atomic<T>& word, T value) { // nobody else writes it, or reads it at this moment
  word.store(value, std::memory_order_relaxed);
}

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
      process_(device.attach(static_cast<int32_t>(number) + 1, 1, device.state().time_ns, options.membership)),
      streams_(options.trace->streams().size()),
      numbered_(static_cast<std::size_t>(options.trace->plan().numbers)) {
  if (process_ == emu::kNone)
    throw std::runtime_error("couldn't simulate more than " + std::to_string(emu::kMaxProcesses) + " jobs");
  for (Stream& stream : streams_) {
    stream.slot = device_.open_stream(process_, 0);
    if (stream.slot == emu::kNone)
      throw std::runtime_error("couldn't simulate more than " + std::to_string(emu::kMaxStreams) + " streams");
    stream.works.resize(emu::kRingOps);
  }
  page_->version = FIKIT_PROTOCOL_VERSION;
  set(page_->fills_ask, options.fills ? 1U : 0U);
  next_request(device_.state().time_ns);
}

void Job::report(std::int64_t now_ns, enum fikit_entry_kind kind, std::uint32_t slot, std::uint64_t value) {
  if (!options_.managed) return;
  Note note{.kind = Note::Kind::report, .job = number_, .step = host_.finished() ? 0 : host_.index(), .report = {}};
  note.report = {.t_ns = now_ns, .slot = slot, .kind = static_cast<std::uint32_t>(kind), .value = value};
  notes_.note(note);
}

policy::Engine Job::engine(std::size_t step) const {
  switch (trace().plan().steps[step].event->kind) {
    case EventKind::copy_to_device: return policy::Engine::to_device;
    case EventKind::copy_to_host: return policy::Engine::to_host;
    default: return policy::Engine::compute;
  }
}

enum fikit_copy Job::copy_of(std::size_t step) const {
  switch (engine(step)) {
    case policy::Engine::to_device: return FIKIT_COPY_IN;
    case policy::Engine::to_host: return FIKIT_COPY_OUT;
    default: return FIKIT_COPY_NONE;
  }
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
  grant_ = 0;
  if (kind == EventKind::synchronize) {
    state_ = State::waiting;
    next_ns_ = kNever;
    if (!host_.step().waits || awaited_done()) go_on(now_ns);
    return;
  }
  const std::size_t step = host_.index();
  if (launches(step) && options_.managed) {
    if (!fikit_gate_open(page_.get())) {
      if (!fikit_run_covers(page_.get(), trace().slot(step))) {
        end_run(now_ns);
        return ask(now_ns, trace().slot(step), FIKIT_COPY_NONE, 0);
      }
      grant_ = page_->grant_seq;
    }
    host_.spends(launch_ns_);
  } else if (const enum fikit_copy copy = copy_of(step);
             copy != FIKIT_COPY_NONE && options_.managed && fikit_copy_asks(page_.get(), copy, bytes(step))) {
    return ask(now_ns, 0, copy, bytes(step));
  }
  issue(now_ns);
}

void Job::ask(std::int64_t now_ns, std::uint32_t slot, enum fikit_copy copy, std::uint64_t bytes) {
  set(page_->request_slot, slot);
  set(page_->request_copy, static_cast<std::uint32_t>(copy));
  set(page_->request_bytes, bytes);
  set(page_->request_ns, now_ns);
  set(page_->request_seq, fikit_next_request(page_->request_seq));
  set(page_->waiting, 1U);
  state_ = State::at_gate;
  next_ns_ = kNever;
  notes_.note({.kind = Note::Kind::request, .job = number_, .step = host_.index(), .report = {}});
}

// Its host stands at the gate. Is there an answer?
void Job::look(std::int64_t now_ns) {
  if (state_ != State::at_gate) return;
  const auto copy = static_cast<enum fikit_copy>(page_->request_copy.load());
  const enum fikit_gate_says answer = fikit_gate_says(page_.get(), page_->request_seq, copy, page_->request_slot);
  if (answer == FIKIT_SAYS_WAIT) return;
  grant_ = answer == FIKIT_SAYS_OPEN ? 0 : page_->grant_seq.load();
  granted_ += answer == FIKIT_SAYS_GRANTED ? 1 : 0;
  set(page_->waiting, 0U);
  state_ = State::passing;
  next_ns_ = now_ns + wake_.next_ns();
}

// Its host has to ask again: if fikitd has ended the run of the launch before, of whose end nothing would be said, and that
// launch went to the same stream, it is marked now.
void Job::end_run(std::int64_t now_ns) {
  const auto [number, request] = std::exchange(unmarked_, {});
  if (request == 0 || number != options_.trace->stream(host_.index()) || !options_.tells_ends) return;
  Stream& stream = streams_[number];
  if (device_.state().streams[stream.slot].tail == stream.collected) report(now_ns, FIKIT_ENTRY_DONE, 0, request);
  else mark_grant(stream, now_ns, request);
}

Job::Stream::Work& Job::newest(const Stream& stream) {
  return const_cast<Stream&>(stream).works[(device_.state().streams[stream.slot].tail - 1) % emu::kRingOps];
}

// Behind the newest work of the stream.
bool Job::put_mark(Stream& stream, std::int64_t now_ns, enum fikit_entry_kind kind, std::uint64_t value) {
  if (!options_.tells_ends || fikit_marks_all_out(page_.get(), last_mark_) || newest(stream).mark != 0) return false;
  newest(stream).mark = ++last_mark_;
  report(now_ns, kind, last_mark_, value);
  return true;
}

// Without a mark the end is seen, as by an event, and reported.
void Job::mark_grant(Stream& stream, std::int64_t now_ns, std::uint32_t request) {
  if (!put_mark(stream, now_ns, FIKIT_ENTRY_MARK_GRANT, request) && options_.tells_ends) newest(stream).request = request;
}

// A point behind the stream's work: every launch up to this launch_seq is complete then. 0: other streams may be at work.
std::uint64_t Job::covers(const Stream& stream) const {
  const bool others = std::any_of(streams_.begin(), streams_.end(),
                                  [&](const Stream& other) { return &other != &stream && other.drained != other.issued; });
  return others ? 0 : page_->launch_seq.load();
}

void Job::count_launch(std::int64_t now_ns) {
  ++kernels_in_flight_;
  Stream& stream = stream_of(host_.index());
  ++stream.issued;
  newest(stream).issued = stream.issued;
  if (keeps_deeds_) deeds_.push_back({.wait = false, .step = host_.index(), .t_ns = now_ns, .began_ns = called_ns_});
  if (!options_.managed) return;
  const enum fikit_entry_kind kind = grant_ != 0 ? FIKIT_ENTRY_GRANTED : FIKIT_ENTRY_LAUNCH;
  const std::uint32_t slot = trace().slot(host_.index());
  const std::uint64_t seq = page_->launch_seq + 1;
  set(page_->launch_seq, seq);
  report(now_ns, kind, slot, fikit_launch_value(kind, grant_, seq));
  if (grant_ != 0) {
    const bool goes_on = fikit_run_goes_on(page_.get());
    unmarked_ = {.stream = options_.trace->stream(host_.index()), .request = goes_on ? grant_ : 0};
    if (!goes_on) mark_grant(stream, now_ns, grant_);
  } else if (fikit_mark_wanted(page_.get(), &marked_, slot, seq)) {
    const std::uint64_t covered = covers(stream);
    if (covered != 0 && put_mark(stream, now_ns, FIKIT_ENTRY_MARK, covered)) set(marked_, covered);
  }
}

void Job::report_copy(std::int64_t now_ns) {
  const std::size_t step = host_.index();
  const enum fikit_copy copy = copy_of(step);
  if (copy == FIKIT_COPY_NONE || !options_.managed || !fikit_copies_matter(page_.get())) return;
  report(now_ns, FIKIT_ENTRY_COPY, copy, bytes(step));
  if (grant_ != 0 && !fikit_run_goes_on(page_.get())) mark_grant(stream_of(step), now_ns, grant_);
}

void Job::issue(std::int64_t now_ns) {
  const replay::Step& step = host_.step();
  if (step.behind >= 0 && !stands_behind_) {
    const Place& other = numbered_[static_cast<std::size_t>(step.behind)];
    if (!enqueue({.wait_stream = other.slot, .wait_seq = other.seq}, kNoStep)) return;
    stands_behind_ = true;
  }
  const emu::Occupancy occupancy = trace().occupancy(host_.index());
  const emu::OpRequest work{.kind = replay::op_kind(step.event->kind),
                            .duration_ns = step.event->duration_ns,
                            .demand = occupancy.demand,
                            .waves = occupancy.waves};
  if (!enqueue(work, host_.index())) return;
  stands_behind_ = false;
  if (launches(host_.index())) count_launch(now_ns);
  else report_copy(now_ns);
  if (step.waits) {
    state_ = State::waiting;
    next_ns_ = kNever;
  } else {
    go_on(now_ns);
  }
}

// False: the queue is full, and the job waits for room.
bool Job::enqueue(const emu::OpRequest& op, std::size_t step) {
  Stream& stream = stream_of(host_.index());
  if (device_.full(stream.slot)) {
    state_ = State::queue_full;
    next_ns_ = kNever;
    return false;
  }
  const std::uint64_t seq = device_.enqueue(stream.slot, op);
  stream.works[seq % emu::kRingOps] = {.step = step, .issued = stream.issued, .mark = 0, .request = 0};
  const int number = step == kNoStep ? -1 : host_.step().number;
  if (number >= 0) numbered_[static_cast<std::size_t>(number)] = {stream.slot, seq};
  return true;
}

// The step in hand is over.
void Job::go_on(std::int64_t now_ns) {
  const replay::Step& step = host_.step();
  const bool tells = step.event->kind == EventKind::synchronize || step.event->kind == EventKind::copy_to_host;
  if (step.waits && tells) {
    knows_complete();
    waited(now_ns);
  }
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

// What the driver's call was about: the stream that it waited for, or all of them.
void Job::knows_complete() {
  const replay::Step& step = host_.step();
  const auto until = [](Stream& stream, std::uint64_t seq) {
    stream.drained = std::max(stream.drained, stream.works[seq % emu::kRingOps].issued);
  };
  if (step.event->kind != EventKind::synchronize) {
    Stream& stream = stream_of(host_.index());
    stream.drained = stream.issued;
  } else if (step.behind < 0) {
    for (Stream& stream : streams_) stream.drained = stream.issued;
  } else {
    const Place& place = numbered_[static_cast<std::size_t>(step.behind)];
    for (Stream& stream : streams_)
      if (stream.slot == place.slot) until(stream, place.seq);
  }
}

void Job::waited(std::int64_t now_ns) {
  if (keeps_deeds_ && kernels_in_flight_ == 0)
    deeds_.push_back({.wait = true, .step = host_.finished() ? 0 : host_.index(), .t_ns = now_ns, .began_ns = called_ns_});
  const std::int64_t since_ns = fikit_waits_since(&wait_, page_->launch_seq, called_ns_, now_ns);
  wait_.until_ns = now_ns;
  const std::uint64_t seq = page_->launch_seq;
  const bool all = std::all_of(streams_.begin(), streams_.end(), [](const Stream& s) { return s.drained == s.issued; });
  if (!all || !fikit_drain_is_news(seq, claimed_) || !options_.tells_ends) return;
  claimed_ = seq;
  set(marked_, seq);
  report(now_ns, FIKIT_ENTRY_DRAINED, fikit_waited_ns(since_ns, now_ns), seq);
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
  const Stream::Work& work = stream.works[seq % emu::kRingOps];
  if (work.mark != 0) {
    Note note{.kind = Note::Kind::reached, .job = number_, .step = work.step, .report = {}};
    note.report.slot = work.mark;
    notes_.note(note);
  }
  if (work.request != 0) report(end_ns, FIKIT_ENTRY_DONE, 0, work.request);
  if (work.step == kNoStep) return;
  const replay::Event& event = *options_.trace->plan().steps[work.step].event;
  if (!launches(work.step)) return;
  --kernels_in_flight_;
  ++kernels_;
  if (keeps_runs_) runs_.push_back({work.step, end_ns - event.duration_ns, end_ns});
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
    for (Stream& stream : streams_) stream.drained = stream.issued;
    waited(now_ns);
    current_.end_ns = now_ns;
    requests_.push_back(current_);
    next_request(now_ns);
  }
  return any;
}

} // namespace fikit::simulator
