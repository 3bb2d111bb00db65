package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"syscall"
)

// maxAnswer bounds the memory a server can make a client spend, in bytes.
const maxAnswer = 256 << 20

// Fetch asks the server on the socket file path for a snapshot and decodes it
// into the value into points to. Parts are those that only snapshots have that are asked
// for them; a server that does not know a part leaves it out. Its errors name the path; errors.Is finds
// fs.ErrNotExist and syscall.ECONNREFUSED when nobody is there.
func Fetch(ctx context.Context, path string, into any, parts ...string) error {
	if err := fetch(ctx, path, into, parts); err != nil {
		return fmt.Errorf("control socket %s: %w", path, err)
	}
	return nil
}

func fetch(ctx context.Context, path string, into any, parts []string) error {
	tr := &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", path)
		},
	}
	defer tr.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://rds"+infoPath, nil)
	if err != nil {
		return err
	}
	if len(parts) > 0 {
		req.URL.RawQuery = url.Values{partsKey: parts}.Encode()
	}
	res, err := tr.RoundTrip(req)
	if err != nil {
		return dialCause(err)
	}
	defer res.Body.Close()
	body := json.NewDecoder(io.LimitReader(res.Body, maxAnswer))
	if res.StatusCode != http.StatusOK {
		var f failure
		if err := body.Decode(&f); err != nil || f.Error == "" {
			f.Error = res.Status
		}
		return errors.New(f.Error)
	}
	if err := body.Decode(into); err != nil {
		return fmt.Errorf("unreadable answer: %w", err)
	}
	return nil
}

// dialCause leaves of an error only what the path does not say already.
func dialCause(err error) error {
	var ue *url.Error
	if errors.As(err, &ue) {
		err = ue.Err
	}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return err
}
