# Builds each stack of $GUEST_STACKS (names), and prints after a line `@@ NAME` what the agent says of it, after
# `@@ after CODE MILLISECONDS` what the command $GUEST_AFTER says, which finds $name and $TARGET; after `@@ end`
# comes the next one. A stack that cannot be built prints `@@ broken NAME` and its log. $GUEST_BUILD: this
# folder. $GUEST_AGENT: the agent.

mount -t tmpfs tmpfs /mnt
# What this host does by itself is no part of a stack. The guest is one that systemd runs (as sd_booted(3) sees
# it), and nothing is enabled there.
mkdir -p /run/systemd/system
for folder in /etc/cron.d /etc/cron.hourly /etc/cron.daily /etc/cron.weekly /etc/cron.monthly \
    /etc/systemd/system /usr/lib/systemd/system; do
    [ ! -d "$folder" ] || mount -t tmpfs tmpfs "$folder"
done
. "$GUEST_BUILD/lib.sh"

for name in $GUEST_STACKS; do
    TARGET=/mnt/$name
    # A function of its own, so that a failing command ends the stack and not the others. What it sets is kept.
    (
        set -eo pipefail
        . "$GUEST_BUILD/$name.sh"
        echo "$TARGET" >/run/target
    ) >/run/log 2>&1
    if [ $? != 0 ]; then
        echo "@@ broken $name"
        cat /run/log
        echo "@@ after 1 0"
    else
        echo "@@ $name"
        begin=${EPOCHREALTIME/./}
        TARGET=$(cat /run/target)
        "$GUEST_AGENT" survey --stack "$TARGET"
        code=$?
        echo "@@ after $code $(((${EPOCHREALTIME/./} - begin) / 1000))"
        eval "$GUEST_AFTER"
    fi
    echo "@@ end"
    (
        set -e
        take_down
    ) >/run/log 2>&1
    if [ $? != 0 ]; then
        echo "what $name left cannot be taken down:" >&2
        cat /run/log >&2
        exit 1
    fi
done
