package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go/aws"
	awscredentials "github.com/aws/aws-sdk-go/aws/credentials"
	"github.com/aws/aws-sdk-go/aws/endpoints"
	"github.com/aws/aws-sdk-go/aws/session"
	v4 "github.com/aws/aws-sdk-go/aws/signer/v4"
	authentication "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/aws-iam-authenticator/pkg/token"
)

const (
	cluster = "blue"
	region  = "eu-central-1"
	host    = "sts.eu-central-1.amazonaws.com"
	prefix  = "k8s-aws-v1."
	roleARN = "arn:aws:iam::123456789012:role/path/cloud-map-sync"
)

var known = credentials{"ASIAEXAMPLE", "secret/with+signs", "session/token+with=signs"}

func TestTokenOfTheReferenceGeneratorIsAuthenticated(t *testing.T) {
	status := review(t, generate(t, cluster, region, known))
	if !status.Authenticated {
		t.Fatalf("refused: %s", status.Error)
	}
	if status.User.Username != "cloud-map-sync" || !slices.Equal(status.User.Groups, []string{"cloud-map-sync"}) {
		t.Errorf("mapped to %q in %q", status.User.Username, status.User.Groups)
	}
}

func TestTokenOfLongTermCredentialsIsAuthenticated(t *testing.T) {
	longTerm := credentials{"AKIAEXAMPLE", "secret", ""}
	if status := reviewWith(t, longTerm, generate(t, cluster, region, longTerm)); !status.Authenticated {
		t.Fatalf("refused: %s", status.Error)
	}
}

func TestTokenOfOtherCredentialsIsRefused(t *testing.T) {
	for other, reason := range map[credentials]string{
		{"ASIAOTHER", known.secretAccessKey, known.sessionToken}: "InvalidClientTokenId",
		{known.accessKeyID, known.secretAccessKey, "other"}:      "InvalidClientTokenId",
		{known.accessKeyID, known.secretAccessKey, ""}:           "InvalidClientTokenId",
		{known.accessKeyID, "other", known.sessionToken}:         "signature we calculated does not match",
	} {
		expectRefusal(t, generate(t, cluster, region, other), reason)
	}
}

func TestTokenForAnotherClusterIsRefused(t *testing.T) {
	expectRefusal(t, generate(t, "green", region, known), "signature we calculated does not match")
}

func TestTokenForAnotherRegionIsRefused(t *testing.T) {
	expectRefusal(t, generate(t, cluster, "eu-west-1", known), "only GET https://"+host)
}

func TestTokenChangedAfterSigningIsRefused(t *testing.T) {
	for name, change := range map[string]struct {
		reason string
		apply  func(*url.URL, url.Values)
	}{
		"signature": {"does not match", func(_ *url.URL, q url.Values) { q.Set("X-Amz-Signature", strings.Repeat("0", 64)) }},
		"expiry":    {"does not match", func(_ *url.URL, q url.Values) { q.Set("X-Amz-Expires", "900") }},
		"date": {"does not match", func(_ *url.URL, q url.Values) {
			q.Set("X-Amz-Date", time.Now().UTC().Add(time.Second).Format(dateFormat))
		}},
		"extra query": {"non-whitelisted", func(_ *url.URL, q url.Values) { q.Set("x-id", "GetCallerIdentity") }},
		"no header":   {"did not sign", func(_ *url.URL, q url.Values) { q.Set("X-Amz-SignedHeaders", "host") }},
		"no host":     {"must be a 'SignedHeader'", func(_ *url.URL, q url.Values) { q.Set("X-Amz-SignedHeaders", "x-k8s-aws-id") }},
		"other host":  {"unexpected hostname", func(u *url.URL, _ url.Values) { u.Host = "sts.example.com" }},
		"no session":  {"InvalidClientTokenId", func(_ *url.URL, q url.Values) { q.Del("X-Amz-Security-Token") }},
	} {
		t.Run(name, func(t *testing.T) {
			signed := decode(t, generate(t, cluster, region, known))
			query := signed.Query()
			change.apply(signed, query)
			signed.RawQuery = query.Encode()
			expectRefusal(t, encode(signed), change.reason)
		})
	}
}

func TestTokenWithPaddingIsRefused(t *testing.T) {
	expectRefusal(t, generate(t, cluster, region, known)+"=", "illegal base64")
}

func TestTokenSignedAtAnotherTimeIsRefused(t *testing.T) {
	now := time.Now()
	if status := review(t, presign(t, now.Add(-14*time.Minute), "")); !status.Authenticated {
		t.Errorf("14 minutes old, refused: %s", status.Error)
	}
	expectRefusal(t, presign(t, now.Add(-16*time.Minute), ""), "X-Amz-Date parameter is expired")
	expectRefusal(t, presign(t, now.Add(16*time.Minute), ""), "Signature not yet current")
}

func TestExtraQueryParameterIsRefusedEvenWhenSigned(t *testing.T) {
	expectRefusal(t, presign(t, time.Now(), "&x-id=GetCallerIdentity"), "non-whitelisted")
}

// The verifier refuses an old token before it calls STS, so the stand-in is asked alone.
func TestStandInRefusesAnOldSignatureItself(t *testing.T) {
	sts, err := newSecurityTokenService(region, roleARN, known)
	if err != nil {
		t.Fatal(err)
	}
	for age, status := range map[time.Duration]int{14 * time.Minute: http.StatusOK, 16 * time.Minute: http.StatusForbidden} {
		request := &http.Request{
			Method: http.MethodGet,
			URL:    decode(t, presign(t, time.Now().Add(-age), "")),
			Header: http.Header{"X-K8s-Aws-Id": {cluster}},
		}
		response, err := sts.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		if response.StatusCode != status {
			t.Errorf("%s old: answered %s", age, response.Status)
		}
	}
}

func TestRoleThatIsNotMappedIsRefused(t *testing.T) {
	reviewer := newTestReviewer(t, known)
	reviewer.roleARN = "arn:aws:iam::123456789012:role/other"
	status := reviewer.authenticate(generate(t, cluster, region, known))
	if status.Authenticated || status.Error != "arn:aws:iam::123456789012:role/cloud-map-sync is not mapped" {
		t.Errorf("authenticated: %t, error %q", status.Authenticated, status.Error)
	}
}

func expectRefusal(t *testing.T, bearer, reason string) {
	t.Helper()
	status := review(t, bearer)
	if status.Authenticated || !strings.Contains(status.Error, reason) {
		t.Errorf("authenticated: %t, error %q does not say %q", status.Authenticated, status.Error, reason)
	}
}

func review(t *testing.T, bearer string) authentication.TokenReviewStatus {
	t.Helper()
	return reviewWith(t, known, bearer)
}

func reviewWith(t *testing.T, expected credentials, bearer string) authentication.TokenReviewStatus {
	t.Helper()
	body, err := json.Marshal(authentication.TokenReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "TokenReview"},
		Spec:     authentication.TokenReviewSpec{Token: bearer},
	})
	if err != nil {
		t.Fatal(err)
	}
	recorder := httptest.NewRecorder()
	newTestReviewer(t, expected).ServeHTTP(recorder, httptest.NewRequest(http.MethodPost, "/authenticate", bytes.NewReader(body)))
	var answer authentication.TokenReview
	if err := json.NewDecoder(recorder.Body).Decode(&answer); err != nil {
		t.Fatal(err)
	}
	return answer.Status
}

func newTestReviewer(t *testing.T, expected credentials) *reviewer {
	t.Helper()
	before := http.DefaultTransport
	t.Cleanup(func() { http.DefaultTransport = before })
	reviewer, err := newReviewer(options{
		cluster: cluster, region: region, credentials: expected, roleARN: roleARN, group: "cloud-map-sync",
	})
	if err != nil {
		t.Fatal(err)
	}
	return reviewer
}

func generate(t *testing.T, cluster, region string, signer credentials) string {
	t.Helper()
	generator, err := token.NewGenerator(false, false)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := generator.GetWithOptions(&token.GetTokenOptions{
		ClusterID: cluster,
		Session: session.Must(session.NewSession(&aws.Config{
			Region:              aws.String(region),
			STSRegionalEndpoint: endpoints.RegionalSTSEndpoint,
			Credentials:         signer.static(),
		})),
	})
	if err != nil {
		t.Fatal(err)
	}
	return signed.Token
}

// presign signs what the generator would, at a time of choice and with more in the query.
func presign(t *testing.T, at time.Time, moreQuery string) string {
	t.Helper()
	address := "https://" + host + "/?Action=GetCallerIdentity&Version=2011-06-15" + moreQuery
	request := httptest.NewRequest(http.MethodGet, address, nil)
	request.Header.Set("x-k8s-aws-id", cluster)
	if _, err := v4.NewSigner(known.static()).Presign(request, nil, "sts", region, time.Minute, at); err != nil {
		t.Fatal(err)
	}
	return encode(request.URL)
}

func (c credentials) static() *awscredentials.Credentials {
	return awscredentials.NewStaticCredentials(c.accessKeyID, c.secretAccessKey, c.sessionToken)
}

func encode(signed *url.URL) string {
	return prefix + base64.RawURLEncoding.EncodeToString([]byte(signed.String()))
}

func decode(t *testing.T, bearer string) *url.URL {
	t.Helper()
	text, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(bearer, prefix))
	if err != nil {
		t.Fatal(err)
	}
	signed, err := url.Parse(string(text))
	if err != nil {
		t.Fatal(err)
	}
	return signed
}
