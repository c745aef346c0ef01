# An empty Debian 12 in the folder $room, for tests of what is carried to other machines. Source it after lib.sh, with the
# programs that the test needs. Skips the test without them, and unless root, for the chroot.
# shellcheck shell=bash
[ "$(id -u)" = 0 ] || { echo 'skipped: needs root for a chroot'; exit 77; }
for program in mmdebstrap "$@"; do
  command -v "$program" >/dev/null || { echo "skipped: $program is not installed"; exit 77; }
done
cd "$WORK" || exit 1
room=$WORK/room
trap 'umount "$room/proc" 2>/dev/null; end_test' EXIT

# make_room [FLAG...]: with apt's lists, and a user whose home is empty.
make_room() {
  mmdebstrap --quiet --variant=apt --mode=root --skip=cleanup/apt/lists "$@" bookworm "$room" || { fail 'no empty Debian'; finish; }
  mount -t proc proc "$room/proc"
  chroot "$room" useradd -m user
}
# in_room COMMAND...: runs it as this user.
in_room() { chroot "$room" runuser -u user -- env -C /home/user HOME=/home/user "$@"; }
