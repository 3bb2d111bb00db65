package main

import sd "github.com/coreos/go-systemd/v22/daemon"

// notify tells the service manager that NOTIFY_SOCKET names, if any; see
// sd_notify(3).
func notify(state string) error {
	_, err := sd.SdNotify(false, state)
	return err
}

// reloading is the state at the beginning of a reload. The time lets the
// manager tell the READY=1 after it from an earlier one.
func reloading() string { return sd.SdNotifyReloading + "\n" + sd.SdNotifyMonotonicUsec() }
