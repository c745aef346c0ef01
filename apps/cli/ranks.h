// The frame of a main whose process may be one rank of a job: its rank, its groups, and a run_main that ends the whole
// job when one rank fails.
//
//   Ranks ranks("mtl-train");
//   flags.check([&] { ...ranks.launched().world... });
//   return run_ranks(flags, argc, argv, ranks, [&](Console& console) -> Exit {
//     ProcessGroups groups = ranks.connect(grid, deadline);
//     ...
//   });
//
// Only rank 0's console informs; warnings and errors come from all, with the rank before them. What is wrong with the
// flags is found before MPI is touched, by every rank for itself. Many errors are the same on all ranks, as after a
// save that one of them could not make: rank 0 says so and ends the job at once, the others only if the job still lives
// two seconds later, for then it is their fault alone.
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

  /// The rank of this process, without MPI. Throws Error(usage) for a launcher that is not supported.
  const RankEnvironment& launched();
  /// For a run that needs no other ranks: where launched() would throw, it returns a world of one from now on.
  void ignore_unsupported_launcher();
  /// Also where launched() throws.
  int rank();
  /// True on the rank that prints for the user.
  bool is_rank_zero() { return rank() == 0; }
  /// The groups of this rank; collective, starts the session. ProcessGroups() in a world of one. From here on
  /// no wait for another rank takes longer than `deadline` seconds: the job ends instead, with who did not come. The
  /// start itself has 10 s at least, for launchers start ranks one after another. `agree` chooses the device that
  /// groups move tensors of; collective.
  using AgreeOnDevice = std::function<Device(MpiSession&)>;
  ProcessGroups connect(const RankGrid& grid, double deadline, const AgreeOnDevice& agree = {});
  /// Null before connect() and in a world of one, which never touches MPI.
  MpiSession* session() { return session_.get(); }

 private:
  friend int run_ranks(Flags&, int, const char* const*, Ranks&, const std::function<void()>&,
                       const std::function<Exit(Console&)>&);
  void report(const std::string& message, Exit code);
  void finish();
  [[noreturn]] void give_up(double seconds, const std::string& what) const;

  std::string program_;
  std::optional<RankEnvironment> launched_;
  std::unique_ptr<MpiSession> session_;
};

/// run_main for one rank of a job. When `run` has returned, all ranks meet and MPI ends; when it throws, the job ends
/// with the error's exit status.
int run_ranks(Flags& flags, int argc, const char* const* argv, Ranks& ranks, const std::function<Exit(Console&)>& run);
/// The same with a step before `run`, which opens the files that the flags name (Flags::parse).
int run_ranks(Flags& flags, int argc, const char* const* argv, Ranks& ranks, const std::function<void()>& prepare,
              const std::function<Exit(Console&)>& run);

}  // namespace mtl
