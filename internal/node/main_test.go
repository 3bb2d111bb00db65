package node

import (
	"testing"

	"github.com/rds-go/rds/internal/rdstest"
)

func TestMain(m *testing.M) { rdstest.Main(m) }
