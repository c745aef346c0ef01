// The channels of messages between two ranks.
#pragma once

namespace mtl {

/// What a message holds. Messages from one rank to another are received in the order in which they were sent,
/// separately for each channel: stages that send each other both kinds need not agree on an order between them.
enum class Channel : int { activations, gradients };
inline constexpr int kChannels = 2;

/// Which members of a group send each other activations (to the next member) and gradients (to the previous one): in a
/// chain, neighbors; in a ring, also the last and the first, as if the first came after the last. In a vee, neighbors
/// send each other both kinds, because the model's parts go to the last member and back to the first (layout/place.h).
enum class MessagePaths { none, chain, ring, vee };

}  // namespace mtl
