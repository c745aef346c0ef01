// Where the consecutive parts of a model are in a pipeline.
#pragma once

namespace mtl {

/// Chunk `chunk` of stage `stage`.
struct Place {
  int stage = 0, chunk = 0;
  bool operator==(const Place&) const = default;
};

/// How a model's consecutive parts pass through the stages. In turn: each chunk goes from the first stage to the last.
/// Vee: chunk 0 goes from the first stage to the last, chunk 1 back to the first, and so on, so that with two chunks,
/// the first stage holds both ends of the model.
enum class Arrangement { in_turn, vee };

/// The places of a pipeline, in model order: chunk 0 of every stage, then chunk 1 of every stage, and so on. A place's
/// index in this order is its position.
struct Places {
  int stages = 1, chunks = 1;  // `chunks` per stage
  Arrangement arrangement = Arrangement::in_turn;

  int count() const { return stages * chunks; }
  Place at(int position) const {
    const int chunk = position / stages;
    return {along(chunk, position % stages), chunk};
  }
  int position_of(Place place) const { return place.chunk * stages + along(place.chunk, place.stage); }
  bool begins_model(Place place) const { return position_of(place) == 0; }
  bool ends_model(Place place) const { return position_of(place) == count() - 1; }
  /// Returns the stage that computes the losses.
  int loss_stage() const { return at(count() - 1).stage; }
  /// Returns true if the place's output is the input of another chunk of the same stage.
  bool turns_after(Place place) const { return !ends_model(place) && at(position_of(place) + 1).stage == place.stage; }
  /// Returns true if the place's input is the output of another chunk of the same stage.
  bool turns_before(Place place) const {
    return !begins_model(place) && at(position_of(place) - 1).stage == place.stage;
  }

 private:
  /// Converts between a stage and how many stages of the chunk come before it.
  int along(int chunk, int index) const {
    return arrangement == Arrangement::vee && chunk % 2 == 1 ? stages - 1 - index : index;
  }
};

}  // namespace mtl
