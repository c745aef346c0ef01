// Replays recorded steps of a pipeline's stages together: when every rank computes, and what it waits for.
//
// A rank has a lane for operators and one for each group. An operator starts when the previous one has ended and all
// earlier waits are over. An operation between ranks starts when its group's lane is free, and ends after the time in
// links.h. All ranks of a stage do the same at the same time, so one of each stage is replayed. Operations of several
// stages, as for the copies of a tied embedding, start when the last stage has come to them. A message is on its way as
// soon as it is sent. Ranks on CPUs compute nothing while they copy what an operation sends inside their node. Copies
// to and from the host's memory, or files, take place beside an action's operators, and take longer only if the link or
// the disk does. Two steps are replayed, and the second is timed, because gathers in the background end there.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "layout/schedule_times.h"
#include "planner/machine.h"
#include "planner/step_trace.h"

namespace mtl {

/// StageTime::waits has waits for copies between the device and host memory, or files, by these names.
inline constexpr const char *kHost = "host", *kFiles = "files";

/// How a stage's ranks spend a step, in milliseconds. Everything adds up to the step.
struct StageTime {
  double compute = 0;
  std::map<std::string, double> waits;  // for operations, by group
  double message_wait = 0;              // for messages that are on their way
  double idle = 0;                      // for other stages to send, and after the stage's end
  int sent = 0;                         // messages to other stages

  double waiting() const;  // for links: `waits` and `message_wait`
};

struct StepTime {
  double ms = 0;
  std::vector<StageTime> stages;
  std::set<std::string> unmeasured = {};  // operators that the machine's profile does not have
};

/// Something that a stage's ranks do without a break.
struct StageSpan {
  enum class Kind { forward, backward, weight, update, wait, idle };
  Kind kind = Kind::idle;          // wait: for links; idle: for other stages, and after the stage's end
  std::size_t action = 0;          // index in the stage's schedule, whose size is the update's
  int micro_batch = 0, chunk = 0;  // of a forward, backward or weight action
  double start = 0, end = 0;       // ms
  bool computes() const { return kind < Kind::wait; }
};

/// The operations of a group, or the messages that a stage sends, over links of one kind.
struct LinkLane {
  std::string name;                  // the group's, or kMessages
  bool between_nodes = false;        // else inside a node
  std::vector<TimeSpan> spans = {};  // ms, in the order of their starts; messages in two directions may overlap
};
inline constexpr const char* kMessages = "messages";

/// A step in time: from 0, when the first stage begins it, until the last one ends it.
struct Timeline {
  struct Stage {
    std::vector<StageSpan> spans;  // one after the other, without gaps
    std::vector<LinkLane> links;   // that are used, those inside the node first
  };
  double ms = 0;
  std::vector<Stage> stages;
};

/// `traces` has one rank's step for every stage; `layout` is one of theirs. Sets `timeline` unless it is null. Throws
/// Error(failure) on deadlock.
StepTime simulate_step(const std::vector<StepTrace>& traces, const Layout& layout, int node_size,
                       const Machine& machine, bool tf32, Timeline* timeline = nullptr);

}  // namespace mtl
