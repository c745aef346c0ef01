// Where the consecutive parts of a model are in a pipeline.
#pragma once

namespace mtl {

/// Chunk `chunk` of stage `stage`.
struct Place {
  int stage = 0, chunk = 0;
  bool operator==(const Place&) const = default;
};

/// The places of a pipeline, in model order: chunk 0 on stage 0, chunk 0 on stage 1, ..., chunk 0 on the last stage,
/// chunk 1 on stage 0, and so on. A place's index in this order is its position.
struct Places {
  int stages = 1, chunks = 1;  // `chunks` per stage

  int count() const { return stages * chunks; }
  Place at(int position) const { return {position % stages, position / stages}; }
  int position_of(Place place) const { return place.chunk * stages + place.stage; }
  bool begins_model(Place place) const { return position_of(place) == 0; }
  bool ends_model(Place place) const { return position_of(place) == count() - 1; }
};

}  // namespace mtl
