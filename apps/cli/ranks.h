// run_main for tools whose processes may be ranks of a job: the rank, its groups, and the end of the whole job when one
// rank fails.
//
//   Ranks ranks("mtl-train");
//   flags.check([&] { ...ranks.launched().world... });
//   return run_ranks(flags, argc, argv, ranks, [&](Console& console) -> Exit {
//     ProcessGroups groups = ranks.connect(grid, deadline);
//     ...
//   });
//
// Only rank 0's console prints information; all ranks print warnings and errors, prefixed with the rank. Every rank
// checks the flags by itself before MPI starts. Many errors are the same on all ranks, such as a save that failed on
// one of them: rank 0 reports the error and ends the job at once. Another rank does so only if the job is still running
// two seconds later, because the error is then that rank's alone.
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

  /// Returns the rank and world size of this process, without MPI. Throws Error(usage) for a launcher that is not
  /// supported.
  const RankEnvironment& launched();
  /// For a run that needs no other ranks: if launched() would throw, makes it return a world of one from now on, with
  /// rank() unchanged.
  void ignore_unsupported_launcher();
  /// Returns the rank of this process, even if launched() throws.
  int rank();
  /// Returns true on the rank that prints for the user.
  bool is_rank_zero() { return rank() == 0; }
  using AgreeOnDevice = std::function<Device(MpiSession&)>;
  /// Collective: starts MPI and returns the groups of this rank; ProcessGroups() in a world of one. From then on, a
  /// wait for other ranks that takes longer than `deadline` seconds ends the job and names the missing ranks. The start
  /// may take at least 10 s, because launchers start ranks one after another. `agree`, also collective, chooses the
  /// device whose tensors the groups move; the CPU by default.
  ProcessGroups connect(const RankGrid& grid, double deadline, const AgreeOnDevice& agree = {});
  /// Null before connect(), and in a world of one, which never initializes MPI.
  MpiSession* session() { return session_.get(); }

 private:
  friend int run_ranks(Flags&, int, const char* const*, Ranks&, const std::function<void()>&,
                       const std::function<Exit(Console&)>&);
  void report(const std::string& message, Exit code);
  void finish();
  [[noreturn]] void give_up(const char* place, double seconds, const char* remedy) const;

  std::string program_;
  std::optional<RankEnvironment> launched_;
  std::unique_ptr<MpiSession> session_;
};

/// run_main for one rank of a job. After `run`, all ranks synchronize and MPI ends; if `run` throws, the job ends with
/// the error's exit status.
int run_ranks(Flags& flags, int argc, const char* const* argv, Ranks& ranks, const std::function<Exit(Console&)>& run);
/// Does the same with a `prepare` function, which opens the files that the flags name (Flags::parse).
int run_ranks(Flags& flags, int argc, const char* const* argv, Ranks& ranks, const std::function<void()>& prepare,
              const std::function<Exit(Console&)>& run);

}  // namespace mtl
