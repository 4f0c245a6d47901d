//! Lists page by page, each page with leave of its own.

use aws_smithy_async::future::pagination_stream::PaginationStream;
use futures_util::Stream;
use futures_util::stream::try_unfold;

use super::{Call, CloudMap, Error};

impl CloudMap {
    /// The pages of a list as they come; `token` gives the token that a page ends with. The SDK's paginators stop
    /// without an error where a token repeats itself; such a list is not whole, and ends in one.
    pub(super) fn pages<Page, Problem>(
        &self,
        call: Call,
        pages: PaginationStream<Result<Page, Problem>>,
        token: impl Fn(&Page) -> Option<&str>,
        failed: impl Fn(&Problem) -> Error,
    ) -> impl Stream<Item = Result<Page, Error>> {
        let first = (pages, true, token, failed);
        try_unfold(first, move |(mut pages, more, token, failed)| async move {
            if !more {
                return Ok(None);
            }
            let _permit = self.permit(call).await;
            let page = pages.next().await.ok_or_else(|| endless(call))?;
            let page = page.map_err(|problem| failed(&problem))?;
            let more = token(&page).is_some_and(|token| !token.is_empty());
            Ok(Some((page, (pages, more, token, failed))))
        })
    }
}

fn endless(call: Call) -> Error {
    let problem = "the list repeats itself and does not end";
    Error::input(format!("make a whole list with {call:?}"), &problem)
}
