package calls

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// sealedPiece is how many bytes have one tag. It fits into a processor's cache, and 10 GiB have tags of 640 KiB.
const sealedPiece = 256 << 10

// Seal proves that a file on a host has the content that the operator's machine read and hashed. Each piece has a tag: GMAC,
// which is AES-GCM without plaintext (NIST SP 800-38D), with the number of the piece as the nonce. Without instructions
// for SHA-256, a processor computes it eight times as fast. Whoever has the key can make other content with the same tags, so
// a seal proves nothing about content that another host sent.
type Seal struct {
	Key  []byte `json:"key"`  // of AES-128; random, and used for the content of one file only
	Tags []byte `json:"tags"` // 16 bytes for each 256 KiB, the last of which may be shorter
}

// MakeSeal reads content to its end, and returns its seal and its size in bytes.
func MakeSeal(content io.Reader) (s Seal, size int64, err error) {
	s.Key = make([]byte, 16)
	_, _ = rand.Read(s.Key) // never fails, by its documentation
	s.Tags, size, err = s.tags(content)
	return s, size, err
}

// Matches reads content to its end, and reports whether it is the content that the seal was made of.
func (s Seal) Matches(content io.Reader) (bool, error) {
	tags, size, err := s.tags(content)
	return err == nil && size > 0 && subtle.ConstantTimeCompare(tags, s.Tags) == 1, err
}

func (s Seal) tags(content io.Reader) (tags []byte, size int64, err error) {
	if len(s.Key) != 16 {
		return nil, 0, fmt.Errorf("the key of a seal has %d bytes instead of 16", len(s.Key))
	}
	block, err := aes.NewCipher(s.Key)
	if err != nil {
		return nil, 0, err
	}
	mac, err := cipher.NewGCM(block)
	if err != nil {
		return nil, 0, err
	}
	piece, nonce := make([]byte, sealedPiece), make([]byte, mac.NonceSize())
	for at := uint64(0); ; at++ {
		n, err := io.ReadFull(content, piece)
		if errors.Is(err, io.EOF) { // the content ended before this piece
			return tags, size, nil
		}
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, 0, err
		}
		size += int64(n)
		binary.BigEndian.PutUint64(nonce, at)
		tags = mac.Seal(tags, nonce, nil, piece[:n])
	}
}
