package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go/aws/arn"
	"github.com/aws/aws-sdk-go/aws/endpoints"
)

const (
	requestID   = "9b2b9d4e-6a3c-4f0c-8f7a-0d6f3a5c1e42"
	sessionName = "token-verifier"
	maximumSkew = 15 * time.Minute
)

// securityTokenService stands in for one regional STS endpoint. It knows one
// set of credentials and answers GetCallerIdentity alone, as STS does where JSON
// is accepted. As a transport it lets no request out of the process.
type securityTokenService struct {
	host, region, partition string
	role                    role
	credentials             credentials
}

type role struct{ arn.ARN }

// A role's path is not part of the ARNs that name its sessions.
func (r role) name() string {
	return r.Resource[strings.LastIndex(r.Resource, "/")+1:]
}

func (r role) canonicalARN() string {
	return fmt.Sprintf("arn:%s:iam::%s:role/%s", r.Partition, r.AccountID, r.name())
}

func (r role) sessionARN() string {
	return fmt.Sprintf("arn:%s:sts::%s:assumed-role/%s/%s", r.Partition, r.AccountID, r.name(), sessionName)
}

func newSecurityTokenService(region, roleARN string, known credentials) (*securityTokenService, error) {
	parsed, err := arn.Parse(roleARN)
	if err != nil || parsed.Service != "iam" || !strings.HasPrefix(parsed.Resource, "role/") {
		return nil, fmt.Errorf("%q is not the ARN of a role", roleARN)
	}
	partition, found := endpoints.PartitionForRegion(endpoints.DefaultPartitions(), region)
	if !found {
		return nil, fmt.Errorf("no partition has a Region %q", region)
	}
	endpoint, err := partition.EndpointFor("sts", region, endpoints.STSRegionalEndpointOption)
	if err != nil {
		return nil, fmt.Errorf("finding the STS endpoint of %s: %w", region, err)
	}
	return &securityTokenService{
		host:        strings.TrimPrefix(endpoint.URL, "https://"),
		region:      region,
		partition:   partition.ID(),
		role:        role{parsed},
		credentials: known,
	}, nil
}

func (s *securityTokenService) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.URL.Scheme != "https" || request.URL.Host != s.host || request.Method != http.MethodGet {
		return nil, fmt.Errorf("only GET https://%s/ is served, not %s %s://%s/",
			s.host, request.Method, request.URL.Scheme, request.URL.Host)
	}
	if refusal := s.refusal(request); refusal != nil {
		return reply(request, http.StatusForbidden, map[string]any{"Error": refusal, "RequestId": requestID})
	}
	return reply(request, http.StatusOK, map[string]any{"GetCallerIdentityResponse": map[string]any{
		"GetCallerIdentityResult": map[string]string{
			"Account": s.role.AccountID,
			"Arn":     s.role.sessionARN(),
			"UserId":  "AROAEXAMPLECLOUDMAPSY:" + sessionName,
		},
		"ResponseMetadata": map[string]string{"RequestId": requestID},
	}})
}

// stsError is an error of STS in its own words.
type stsError struct{ Code, Message, Type string }

func refused(code, format string, values ...any) *stsError {
	return &stsError{Code: code, Message: fmt.Sprintf(format, values...), Type: "Sender"}
}

func (s *securityTokenService) refusal(request *http.Request) *stsError {
	query := request.URL.Query()
	accessKeyID, scope, _ := strings.Cut(query.Get("X-Amz-Credential"), "/")
	if query.Get("X-Amz-Signature") == "" || query.Get("X-Amz-Algorithm") != algorithm {
		return refused("MissingAuthenticationToken", "Request is missing Authentication Token")
	}
	if accessKeyID != s.credentials.accessKeyID || query.Get("X-Amz-Security-Token") != s.credentials.sessionToken {
		return refused("InvalidClientTokenId", "The security token included in the request is invalid.")
	}
	if refusal := s.refusalOfScope(query, scope); refusal != nil {
		return refusal
	}
	if !slices.Contains(signedHeaders(query), "host") {
		return refused("SignatureDoesNotMatch", "'Host' or ':authority' must be a 'SignedHeader' in the AWS Authorization.")
	}
	if !s.credentials.signed(request, scope) {
		return refused("SignatureDoesNotMatch", "The request signature we calculated does not match the signature you provided. "+
			"Check your AWS Secret Access Key and signing method. Consult the service documentation for details.")
	}
	return nil
}

// refusalOfScope leaves X-Amz-Expires alone, as STS does.
func (s *securityTokenService) refusalOfScope(query url.Values, scope string) *stsError {
	signedAt, err := time.Parse(dateFormat, query.Get("X-Amz-Date"))
	if err != nil {
		return refused("IncompleteSignature", "Date must be in ISO-8601 'basic format'. Got '%s'.", query.Get("X-Amz-Date"))
	}
	if expected := fmt.Sprintf("%s/%s/sts/aws4_request", signedAt.Format("20060102"), s.region); scope != expected {
		return refused("SignatureDoesNotMatch", "Credential should be scoped to %s, not to %s.", expected, scope)
	}
	age := time.Since(signedAt)
	if age > maximumSkew {
		return refused("SignatureDoesNotMatch", "Signature expired: %s is now more than 15 min. ago", signedAt.Format(dateFormat))
	}
	if age < -maximumSkew {
		return refused("SignatureDoesNotMatch", "Signature not yet current: %s is still more than 15 min. ahead", signedAt.Format(dateFormat))
	}
	return nil
}

func reply(request *http.Request, status int, content any) (*http.Response, error) {
	body, err := json.Marshal(content)
	if err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: status, Status: fmt.Sprintf("%d %s", status, http.StatusText(status)),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        http.Header{"Content-Type": {"application/json"}},
		Body:          io.NopCloser(bytes.NewReader(body)),
		ContentLength: int64(len(body)),
		Request:       request,
	}, nil
}
