package explain

import (
	"fmt"
	"io"
)

// maxInput limits what is read: logs of large jobs have some 100 MiB.
const maxInput = 1 << 30

// ReadInput reads the text to explain. The name is for the error that it is too long.
func ReadInput(name string, in io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(in, maxInput+1))
	if err != nil {
		return nil, fmt.Errorf("read input: %w", err)
	}
	if len(text) > maxInput {
		return nil, fmt.Errorf("%s is longer than 1 GiB: pass only the part in which NCCL starts", name)
	}
	return text, nil
}
