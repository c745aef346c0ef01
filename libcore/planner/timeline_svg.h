// Draws a simulated step: what every stage does, and what is on its links, over time.
//
// A stage has a band with its actions. Action boxes are as high as the share of their time in which the stage computes;
// below is the share in which it waits for links, in waits too short to be drawn one by one. Lanes under the band show
// when operations of each group, and the messages that the stage sends, are on links inside and between nodes. If a
// step has so many actions that they would be too narrow to tell apart, its middle is left out, where the schedule
// repeats itself. Of more than 17 stages, the first and last 8 are shown.
#pragma once

#include <string>

#include "planner/simulate.h"

namespace mtl {

/// Returns the drawing as an SVG document. `subtitle` says what the step runs on.
std::string timeline_svg(const Timeline& timeline, const StepTime& time, const std::string& title,
                         const std::string& subtitle);

}  // namespace mtl
