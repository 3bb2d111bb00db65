# Shared by run.sh and demo.sh; source it from the module's root.

# need PACKAGE...: installs the Debian packages that are missing. It fails,
# with the reason in $need_why, where that is not possible.
need() {
    need_why=
    local p missing=()
    command -v dpkg-query >/dev/null || { need_why='not a Debian system'; return 1; }
    for p in "$@"; do
        [ "$(dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null)" = installed ] || missing+=("$p")
    done
    [ ${#missing[@]} -eq 0 ] && return 0
    [ "$(id -u)" -eq 0 ] || { need_why="not root, cannot install ${missing[*]}"; return 1; }
    command -v apt-get >/dev/null || { need_why="no apt-get to install ${missing[*]}"; return 1; }
    echo "installing ${missing[*]}"
    local log
    log=$(mktemp)
    if ! { DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}" ||
        { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}"; }; } \
        >"$log" 2>&1 </dev/null; then
        tail -n 5 "$log"
        need_why="could not install ${missing[*]}"
    fi
    rm -f "$log"
    [ -z "$need_why" ]
}

# modules fetches the modules. Without certificates none can be fetched, and Debian's git
# comes without them.
modules() {
    go mod download 2>/dev/null || need ca-certificates || echo "$need_why"
}
