package ddp

import (
	"errors"
	"fmt"
	"testing"
)

// The table of RFC 5041 section 7.2.
func TestErrorsHaveTheCodesOfTheRFC(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err        Error
		typ, code  uint8
		text       string
		registered bool
	}{
		{ErrCatastrophic, 0, 0, "ddp: local catastrophic error", true},
		{ErrInvalidSTag, 1, 0, "ddp: invalid STag", true},
		{ErrBounds, 1, 1, "ddp: base or bounds violation", true},
		{ErrNotAssociated, 1, 2, "ddp: STag not associated with the stream", true},
		{ErrTOWrap, 1, 3, "ddp: TO wrap", true},
		{ErrTaggedVersion, 1, 4, "ddp: invalid DDP version of a tagged segment", true},
		{ErrInvalidQN, 2, 1, "ddp: invalid QN", true},
		{ErrNoBuffer, 2, 2, "ddp: invalid MSN: no buffer available", true},
		{ErrMSNRange, 2, 3, "ddp: invalid MSN: not in range", true},
		{ErrInvalidMO, 2, 4, "ddp: invalid MO", true},
		{ErrTooLong, 2, 5, "ddp: message too long for the buffer", true},
		{ErrUntaggedVersion, 2, 6, "ddp: invalid DDP version of an untagged segment", true},
		{Error(0x200), 2, 0, "ddp: error 2/00", false},
		{Error(0x105), 1, 5, "ddp: error 1/05", false},
		{Error(0x3a7), 3, 0xa7, "ddp: error 3/a7", false},
	} {
		if c.err.Type() != c.typ || c.err.Code() != c.code {
			t.Errorf("%v: %d/%02x, want %d/%02x", c.err, c.err.Type(), c.err.Code(), c.typ, c.code)
		}
		if c.err.Error() != c.text || c.err.Known() != c.registered {
			t.Errorf("%q, known %v; want %q, %v", c.err.Error(), c.err.Known(), c.text, c.registered)
		}
		if wrapped := fmt.Errorf("wrapped: %w", c.err); !errors.Is(wrapped, c.err) {
			t.Errorf("%v is not found in %v", c.err, wrapped)
		}
	}
}
