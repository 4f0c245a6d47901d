package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"strings"
)

const (
	algorithm  = "AWS4-HMAC-SHA256"
	dateFormat = "20060102T150405Z"
)

type credentials struct{ accessKeyID, secretAccessKey, sessionToken string }

// signed computes the SigV4 signature of a presigned request anew and says
// whether the request carries it. Written from AWS's description of SigV4 and
// not with an SDK's signer, which could share a mistake with the one under test.
func (c credentials) signed(request *http.Request, scope string) bool {
	query := request.URL.Query()
	canonical := sha256.Sum256([]byte(canonicalRequest(request)))
	toSign := strings.Join([]string{algorithm, query.Get("X-Amz-Date"), scope, hex.EncodeToString(canonical[:])}, "\n")
	key := []byte("AWS4" + c.secretAccessKey)
	for part := range strings.SplitSeq(scope, "/") {
		key = mac(key, part)
	}
	claimed, err := hex.DecodeString(query.Get("X-Amz-Signature"))
	return err == nil && hmac.Equal(claimed, mac(key, toSign))
}

func canonicalRequest(request *http.Request) string {
	query := request.URL.Query()
	names := signedHeaders(query)
	var headers strings.Builder
	for _, name := range names {
		value := strings.Join(request.Header.Values(name), ",")
		if name == "host" {
			value = request.URL.Host
		}
		headers.WriteString(name + ":" + strings.Join(strings.Fields(value), " ") + "\n")
	}
	query.Del("X-Amz-Signature")
	emptyBody := sha256.Sum256(nil)
	return strings.Join([]string{
		request.Method, request.URL.EscapedPath(), canonicalQuery(query),
		headers.String(), strings.Join(names, ";"), hex.EncodeToString(emptyBody[:]),
	}, "\n")
}

// SigV4 wants a space as %20; a literal plus is already %2B here.
func canonicalQuery(query url.Values) string {
	return strings.ReplaceAll(query.Encode(), "+", "%20")
}

func signedHeaders(query url.Values) []string {
	return strings.Split(query.Get("X-Amz-SignedHeaders"), ";")
}

func mac(key []byte, message string) []byte {
	hash := hmac.New(sha256.New, key)
	hash.Write([]byte(message))
	return hash.Sum(nil)
}
