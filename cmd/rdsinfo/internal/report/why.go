package report

import (
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"time"

	"github.com/rds-go/rds/rds"
)

// about is the waits of a snapshot that concern an address, all of them if it is not valid.
func about(info *rds.Info, addr netip.Addr) []rds.WaitInfo {
	out := []rds.WaitInfo{}
	for _, w := range info.Waits {
		if !addr.IsValid() || w.Remote.Addr() == addr || w.Local.Addr() == addr {
			out = append(out, w)
		}
	}
	return out
}

// WriteWhyJSON writes the waits that concern addr, all of them if it is not valid, as one
// JSON object on one line, with the keys of rds.Info.
func WriteWhyJSON(w io.Writer, info *rds.Info, addr netip.Addr) error {
	return json.NewEncoder(w).Encode(struct {
		Provider string         `json:"provider"`
		Time     time.Time      `json:"time"`
		Waits    []rds.WaitInfo `json:"waits"`
	}{info.Provider, info.Time, about(info, addr)})
}

// WriteWhy writes one line for each wait that concerns addr, of all if it is not valid: who
// waits, for what, since when, what happens next, and what to do.
func WriteWhy(w io.Writer, info *rds.Info, addr netip.Addr) error {
	var b strings.Builder
	waits := about(info, addr)
	for i := range waits {
		whyLine(&b, &waits[i], info.Time)
	}
	if len(waits) == 0 {
		b.WriteString("nothing waits\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// whyLine writes one wait as of now.
func whyLine(b *strings.Builder, w *rds.WaitInfo, now time.Time) {
	fmt.Fprintf(b, "%s %s since %s (%s)", who(w), what(w), w.Since.Format(time.TimeOnly), span(now.Sub(w.Since)))
	var with []string
	if w.Messages > 0 {
		with = append(with, fmt.Sprintf("%d messages", w.Messages))
	}
	if w.Bytes > 0 {
		with = append(with, fmt.Sprintf("%d bytes", w.Bytes))
	}
	if w.Senders > 0 {
		with = append(with, fmt.Sprintf("%d senders blocked", w.Senders))
	}
	if len(with) > 0 {
		b.WriteString(", " + strings.Join(with, ", "))
	}
	if !w.Last.IsZero() {
		fmt.Fprintf(b, "; the last %s ago", span(now.Sub(w.Last)))
	}
	if w.Detail != "" {
		b.WriteString("; " + w.Detail)
	}
	if w.Error != "" {
		fmt.Fprintf(b, "; last error: %s", strings.ReplaceAll(w.Error, "\n", ", "))
	}
	if w.Tries > 0 {
		fmt.Fprintf(b, " (%d attempts failed)", w.Tries)
	}
	if !w.NextTry.IsZero() {
		fmt.Fprintf(b, "; next attempt in %s", span(max(0, w.NextTry.Sub(now))))
	}
	if w.Hint != "" {
		fmt.Fprintf(b, ". %s", w.Hint)
	}
	b.WriteByte('\n')
}

// span is a duration as an operator reads it.
func span(d time.Duration) string {
	if d < time.Minute {
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// who is the socket, application or host that waits.
func who(w *rds.WaitInfo) string {
	var s []string
	switch {
	case w.Local.IsValid() && w.Local.Port() != 0:
		s = append(s, w.Local.String())
	case w.Local.IsValid():
		s = append(s, w.Local.Addr().String())
	}
	if w.PID != 0 {
		s = append(s, fmt.Sprintf("pid %d (%s)", w.PID, name(w.Command)))
	}
	if len(s) == 0 {
		return "this host"
	}
	return strings.Join(s, " ")
}

// what is the cause as a sentence about who waits.
func what(w *rds.WaitInfo) string {
	peer, port := w.Remote.Addr(), w.Remote.Port()
	owner := ""
	if w.OwnerPID != 0 {
		owner = fmt.Sprintf(" of pid %d (%s)", w.OwnerPID, name(w.Owner))
	}
	switch w.Cause {
	case rds.CauseUnreachable:
		return fmt.Sprintf("cannot reach %v (path %d)", peer, w.Path)
	case rds.CauseHandshake:
		return fmt.Sprintf("waits for the handshake with %v (path %d)", peer, w.Path)
	case rds.CauseCongested:
		return fmt.Sprintf("waits for port %d of %v%s, which is congested,", port, peer, owner)
	case rds.CauseHeld:
		return fmt.Sprintf("waits for port %d of %v%s, whose application takes nothing,", port, peer, owner)
	case rds.CauseSendBuffer:
		return "waits for room in its send buffer"
	case rds.CauseBudget:
		if peer.IsValid() {
			return fmt.Sprintf("waits for budget towards %v", peer)
		}
		return "waits for budget"
	case rds.CauseMemory:
		return "waits for room in its submission ring or send arena"
	case rds.CauseFates:
		return "waits for its own application to read fates"
	case rds.CauseWindow:
		return fmt.Sprintf("waits for %v (path %d) to take what was written", peer, w.Path)
	case rds.CauseReceiver:
		return "does not take what has come for it"
	case rds.CausePaused:
		return fmt.Sprintf("is full and keeps path %d of %v from being read", w.Path, peer)
	case rds.CauseRefused:
		return fmt.Sprintf("sends to port %d of %v, which nobody is bound to,", port, peer)
	case rds.CauseFallenBack:
		return fmt.Sprintf("speaks TCP with %v instead of XRC", peer)
	}
	return fmt.Sprintf("waits (%s) for %v", w.Cause, w.Remote)
}
