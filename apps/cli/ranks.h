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
// Only rank 0 prints information. All ranks print warnings and errors, prefixed with the rank. Every rank checks the
// flags separately before MPI starts. Many errors occur on all ranks, for example after a save that failed on one rank.
// Rank 0 reports such an error and ends the job immediately. Another rank reports an error only if the job is still
// running two seconds later, because then only that rank has the error.
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
  /// For a run that needs no other ranks. If launched() would throw, makes launched() return a world of one from now
  /// on; rank() is unchanged.
  void ignore_unsupported_launcher();
  /// Returns the rank of this process, even if launched() throws.
  int rank();
  /// Returns true on the rank that prints for the user.
  bool is_rank_zero() { return rank() == 0; }
  using AgreeOnDevice = std::function<Device(MpiSession&)>;
  /// Collective: starts MPI and returns the groups of this rank, or ProcessGroups() in a world of one. From then on, a
  /// wait for other ranks that takes longer than `deadline` seconds ends the job and names the missing ranks. The
  /// deadline of the start itself is at least 10 s, because launchers start ranks one after another. `agree`, which is
  /// also collective, chooses the device whose tensors the groups exchange; the default is the CPU.
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

/// Like run_main(), for one rank of a job. After `run`, all ranks synchronize and MPI ends. If `run` throws, the job
/// ends with the exit code of the error.
int run_ranks(Flags& flags, int argc, const char* const* argv, Ranks& ranks, const std::function<Exit(Console&)>& run);
/// Like the function above, with a `prepare` function that opens the files that the flags name (Flags::parse()).
int run_ranks(Flags& flags, int argc, const char* const* argv, Ranks& ranks, const std::function<void()>& prepare,
              const std::function<Exit(Console&)>& run);

}  // namespace mtl
