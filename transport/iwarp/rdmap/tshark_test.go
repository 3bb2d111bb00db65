//go:build live

package rdmap

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// severityWarn is PI_WARN; what is below it are chats and notes on TCP.
const severityWarn = 0x600000

// field is one item of tshark's tree, in document order.
type field struct {
	name, show, text string
}

// dissect returns everything that tshark finds in a capture.
func dissect(t *testing.T, path string, options ...string) (out []field) {
	t.Helper()
	tshark, err := exec.LookPath("tshark")
	if err != nil {
		t.Skip("needs the program tshark (Debian: tshark), to read the captures")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, tshark, append([]string{"-n", "-r", path, "-T", "pdml"}, options...)...)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "LC_ALL=C.UTF-8") // no settings of a user's
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	text, err := cmd.Output()
	if err != nil {
		t.Fatalf("tshark: %v\n%s", err, &stderr)
	}
	for d := xml.NewDecoder(bytes.NewReader(text)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatalf("tshark's output: %v", err)
		}
		if e, ok := token.(xml.StartElement); ok {
			var f field
			for _, a := range e.Attr {
				switch a.Name.Local {
				case "name":
					f.name = a.Value
				case "show":
					f.show = a.Value
				case "showname":
					f.text = a.Value
				}
			}
			out = append(out, f)
		}
	}
}

// TestTsharkReadsTheCaptures holds our encoders to an implementation of the RFCs
// that is not ours: it finds every segment, with our values in every field, a
// good CRC in every FPDU that has one, and nothing to warn of.
func TestTsharkReadsTheCaptures(t *testing.T) {
	t.Parallel()
	for _, cp := range captures() {
		t.Run(cp.name, func(t *testing.T) {
			t.Parallel()
			var options []string
			if cp.empty {
				// It guesses what the payload of a Send might be, and
				// RPC's guess fails on an empty one.
				options = []string{"--disable-protocol", "rpcordma"}
			}
			fields := dissect(t, cp.path(), options...)
			for _, c := range complaints(t, fields) {
				t.Error(c)
			}
			got := map[string][]string{}
			for _, f := range fields {
				got[f.name] = append(got[f.name], number(f.show))
			}
			want := cp.fields(t)
			for name, values := range want {
				if !slices.Equal(got[name], values) {
					t.Errorf("%s: tshark has %v\nwe sent %v", name, got[name], values)
				}
			}
			if n := len(want["iwarp_rdma.opcode"]); cp.crc != (len(got["iwarp_mpa.crc_check"]) == n) {
				t.Errorf("%d CRCs of %d FPDUs", len(got["iwarp_mpa.crc_check"]), n)
			}
			if cp.markers == (len(got["iwarp_mpa.marker_fpduptr"]) == 0) {
				t.Errorf("%d markers", len(got["iwarp_mpa.marker_fpduptr"]))
			}
		})
	}
}

// complaints are what tshark does not like.
func complaints(t *testing.T, fields []field) (out []string) {
	t.Helper()
	for i, f := range fields {
		switch f.name {
		case "_ws.malformed":
			out = append(out, "malformed: "+f.text)
		case "_ws.expert.severity":
			severity, err := strconv.ParseUint(f.show, 0, 32)
			if err != nil {
				t.Fatalf("severity %q", f.show)
			}
			if severity >= severityWarn {
				out = append(out, fields[i-1].text) // the message
			}
		case "iwarp_mpa.crc_check":
			if !strings.Contains(f.text, "Good") {
				out = append(out, f.text)
			}
		}
	}
	return out
}

// TestTsharkComplains shows that it would: of a CRC, and of a Terminate that
// announces a header it does not have.
func TestTsharkComplains(t *testing.T) {
	t.Parallel()
	cut := terminate(server, CauseDDPMSNRange, untagged(OpSend, 2).AppendTo(nil))
	cut.payload = cut.payload[:10]
	for name, cp := range map[string]*capture{
		"CRC":       {rev: 1, crc: true, messages: []message{send(client, OpSend, 1, []byte("payload"))}},
		"Malformed": {rev: 1, crc: true, messages: []message{send(client, OpSend, 1, []byte("payload")), cut}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := cp.build()
			if name == "CRC" {
				at := bytes.LastIndex(file, []byte("payload"))
				file[at] ^= 1
			}
			path := filepath.Join(t.TempDir(), "bad.pcap")
			must(t, os.WriteFile(path, file, 0o644))
			if got := strings.Join(complaints(t, dissect(t, path)), "\n"); !strings.Contains(got, name) {
				t.Errorf("tshark says %q", got)
			}
		})
	}
}

// number gives the different forms of numbers one.
func number(show string) string {
	if n, err := strconv.ParseUint(show, 0, 64); err == nil {
		return fmt.Sprint(n)
	}
	return show
}
