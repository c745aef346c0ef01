// Step totals: the numbers that ranks exchange after each step.
#include "train/step_totals.h"

#include <doctest/doctest.h>

#include "tests/comm/thread_group.h"

using namespace mtl;
using namespace mtl::test;

TEST_CASE("each total is the sum over the ranks") {
  run_ranks(RankGrid({.data = 2}), [&](int rank, const ProcessGroups& groups) {
    StepTotals totals;
    double* const fields[] = {&totals.loss_sum,    &totals.z_loss_sum,      &totals.tokens,
                              &totals.save,        &totals.status,          &totals.end,
                              &totals.stop,        &totals.failed,          &totals.unsavable,
                              &totals.writing,     &totals.nonzero_updates, &totals.lost_updates,
                              &totals.lost_copies, &totals.zero_gradients,  &totals.params_squares};
    for (std::size_t i = 0; i < std::size(fields); ++i) *fields[i] = double(i + 1) * (rank + 1);
    totals.exchange(groups.world());
    for (std::size_t i = 0; i < std::size(fields); ++i) CHECK(*fields[i] == 3 * double(i + 1));
  });
}

TEST_CASE("after a step every rank knows the loss, the requests of any rank, and the shortest wait") {
  for (int ranks : {1, 3}) {
    run_ranks(RankGrid({.data = ranks}), [&](int rank, const ProcessGroups& groups) {
      StepTotals totals;
      totals.waited = 0.5 * (ranks - rank);
      if (rank == 0) totals.loss_sum = 12;
      if (rank == 0) totals.tokens = 4;
      if (rank == ranks - 1) totals.save = 1;
      StepReport report;
      report.loss_sums[0] = totals.loss_sum;
      report.nonzero_updates = 10 + rank;
      report.lost_updates = rank;
      report.lost_copies = 3;
      report.zero_gradients = 5 + rank;
      report.params_squares = 0.5;
      totals.take(report);
      // Runs twice to show that the first exchange leaves no state behind.
      for (int round = 0; round < 2; ++round) {
        StepTotals all = totals;
        all.exchange(groups.world());
        CHECK(all.loss() == 3);
        CHECK(all.save == 1);
        CHECK(all.nonzero_updates == (ranks == 1 ? 10 : 33));
        CHECK(all.lost_updates == (ranks == 1 ? 0 : 3));
        CHECK(all.lost_copies == 3 * ranks);
        CHECK(all.zero_gradients == (ranks == 1 ? 5 : 18));
        CHECK(all.params_squares == 0.5 * ranks);
        CHECK(all.status == 0);
        CHECK(all.waited == 0.5);
      }
    });
  }
}
