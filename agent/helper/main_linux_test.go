package helper

import (
	"os"
	"testing"

	"github.com/fabricform/fabricform/resource/kindtest"
)

func TestMain(m *testing.M) { os.Exit(kindtest.OwnNetwork(m)) }
