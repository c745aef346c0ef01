// run_main for tools that may be started as ranks of a job: finds the rank and its groups, and ends the entire job when
// one rank fails.
//
//   Ranks ranks("mtl-train");
//   flags.check([&] { ...ranks.launched().world... });
//   return run_ranks(flags, argc, argv, ranks, [&](Console& console) -> Exit {
//     ProcessGroups groups = ranks.connect(deadline, [&](MpiSession& session) { ...layout and device... });
//     ...
//   });
//
// Only rank 0 prints information. All ranks print warnings and errors, prefixed with the rank. Every rank checks the
// flags by itself before MPI starts. Many errors occur on all ranks, for example after a save failed on one of them.
// Rank 0 reports its error and ends the job immediately. Any other rank waits two seconds before reporting: if the job
// is still running, it is the only one with the error.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "cli/run_main.h"
#include "comm/groups.h"
#include "comm/mpi_session.h"

namespace mtl {

class Ranks {
 public:
  explicit Ranks(std::string program) : program_(std::move(program)) {}
  Ranks(const Ranks&) = delete;

  /// Returns this process's rank and world size, without MPI. Throws Error(usage) if the launcher is not supported.
  const RankEnvironment& launched();
  /// For a run that needs no other ranks. If launched() would throw, makes it return a world of one from now on. rank()
  /// does not change.
  void ignore_unsupported_launcher();
  /// Returns this process's rank, even if launched() throws.
  int rank();
  /// Returns true on the rank that prints for the user.
  bool is_rank_zero() { return rank() == 0; }
  struct Groups {
    Layout layout;                // of this rank
    Device device = Device::cpu;  // whose tensors the groups exchange
  };
  using AgreeOnGroups = std::function<Groups(MpiSession&)>;
  /// Collective: starts MPI and returns this rank's groups, or ProcessGroups() in a world of one. From then on, waiting
  /// for other ranks longer than `deadline` seconds ends the job and names the missing ranks. The start itself may take
  /// at least 10 s, because launchers start ranks one after another. `agree`, also collective, is called once the ranks
  /// can communicate, and must return the same groups on all of them: ranks that make different ones wait for ever.
  ProcessGroups connect(double deadline, const AgreeOnGroups& agree);
  /// Null before connect(), and in a world of one, which never initializes MPI.
  MpiSession* session() { return session_.get(); }

 private:
  friend int run_ranks(Flags&, int, const char* const*, Ranks&, const ToolWork&, RunFrame);
  void report(const std::string& message, Exit code);
  void finish();
  [[noreturn]] void give_up(const char* place, double seconds, const char* remedy) const;

  std::string program_;
  std::optional<RankEnvironment> launched_;
  std::unique_ptr<MpiSession> session_;
};

/// Like run_main(), for a rank of a job. After `work`, all ranks synchronize and MPI ends. If `work` throws, the job
/// ends with that error's exit code. Of `frame`, only begin() and prepare() are used.
int run_ranks(Flags& flags, int argc, const char* const* argv, Ranks& ranks, const ToolWork& work, RunFrame frame = {});

}  // namespace mtl
